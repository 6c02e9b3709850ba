"""Claims with their pods: shared, handed over, given back, gone; alike on both clusters."""

from __future__ import annotations

import pytest

from dra_spawner.devcluster.demo.example_nodes import (
    GPU_SHARE_CLASS,
)
from tests.integration.devices import priority_class
from tests.integration.scheduling_script import (
    FINALIZER,
    NO_DEVICES,
    Script,
    claim,
    consumers,
    pod,
    request,
    scheduled,
    share,
    template,
)


async def test_pods_that_share_a_claim(script: Script):
    await script.publish(claim("team", share("20Gi")))
    await script.run(pod("one", claim="team", cpu="7"), pod("two", claim="team", cpu="7"))
    assert [await script.node_of(name) for name in ("one", "two")] == ["shared-gpus", "shared-gpus"]
    assert consumers(await script.claim("team")) == ["one", "two"]
    assert await script.waits(pod("three", claim="team", cpu="7")) == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 resourceclaim not available on the node. "
        "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    await script.delete("one")
    assert await script.node_of("three") == "shared-gpus"
    path = script.cluster.path("resourceclaims", "team")
    await script.cluster.wait_for(path, lambda obj: sorted(consumers(obj)) == ["three", "two"])


async def test_shared_claim_is_handed_over(script: Script):
    await script.publish(claim("warm", share("10Gi")))
    await script.run(pod("placeholder", claim="warm"))
    before = (await script.claim("warm"))["status"]["allocation"]
    await script.run(pod("user", claim="warm"))
    await script.delete("placeholder")
    path = script.cluster.path("resourceclaims", "warm")
    after = await script.cluster.wait_for(path, lambda obj: consumers(obj) == ["user"])
    assert after["status"]["allocation"] == before


async def test_handover_preempts_the_placeholder_for_cpu(script: Script):
    """The user's pod becomes a consumer only when bound, so the claim may be free for a moment between the two pods.

    The real claim controller releases the claim now and then. In the end, the user's pod must have it.
    """
    low, high = (f"{script.cluster.namespace}-{name}" for name in ("low", "high"))
    await script.publish(priority_class(low, -10), priority_class(high, 10), claim("warm", share("10Gi")))
    await script.run(pod("placeholder", claim="warm", cpu="14", priorityClassName=low))
    await script.run(pod("user", claim="warm", cpu="14", priorityClassName=high))
    after = await script.cluster.wait_for(
        script.cluster.path("resourceclaims", "warm"),
        lambda warm: [consumer["name"] for consumer in warm["status"].get("reservedFor", ())] == ["user"],
    )
    assert after["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] == {"memory": "10Gi"}
    user = await script.cluster.wait_running("user")
    assert "nominatedNodeName" not in user["status"]
    message = f"Preempted by pod {user['metadata']['uid']} on node shared-gpus"
    await script.cluster.wait_event("placeholder", "Preempted", text=message)


@pytest.mark.promise("The scheduler's own preemption frees no device, as on a real cluster.")
async def test_preemption_never_frees_devices(script: Script):
    low, high = (f"{script.cluster.namespace}-{name}" for name in ("low", "high"))
    await script.publish(priority_class(low, -10), priority_class(high, 10), template("all", request(GPU_SHARE_CLASS)))
    await script.run(*(pod(name, template="all", priorityClassName=low) for name in ("one", "two")))
    assert await script.waits(pod("vip", template="all", priorityClassName=high)) == NO_DEVICES
    await script.delete("two")
    assert await script.node_of("vip") == "shared-gpus"


async def test_devices_are_given_back_when_the_last_pod_goes(script: Script):
    await script.publish(claim("standing", share("10Gi")))
    await script.run(pod("one", claim="standing"), pod("two", claim="standing"))
    assert (await script.claim("standing"))["metadata"]["finalizers"] == [FINALIZER]
    await script.delete("one")
    path = script.cluster.path("resourceclaims", "standing")
    left = await script.cluster.wait_for(path, lambda obj: consumers(obj) == ["two"])
    assert "allocation" in left["status"]
    await script.delete("two")
    free = await script.cluster.wait_for(path, lambda obj: "finalizers" not in obj["metadata"])
    assert not free["status"]


async def test_claim_that_is_deleted_waits_for_its_pod(script: Script):
    await script.publish(claim("standing", share("10Gi")))
    await script.run(pod("user", claim="standing"))
    path = script.cluster.path("resourceclaims", "standing")
    await script.cluster.admin.delete(path)
    assert (await script.claim("standing"))["metadata"]["deletionTimestamp"]
    # A scheduler that knows a newer claim knows of the deletion, too.
    await script.publish(claim("after", share("10Gi")))
    await script.run(pod("proof", claim="after"))
    # No other pod gets the claim any more; the other pod is pending without a message.
    await script.publish(pod("late", claim="standing"))
    await script.delete("user")
    await script.cluster.wait_gone(path)
    assert scheduled(await script.cluster.admin.get(script.cluster.path("pods", "late"))) is None


async def test_claim_from_a_template_goes_with_its_pod(script: Script):
    await script.publish(template("share", share("10Gi")))
    await script.run(pod("user", template="share"))
    made = await script.claim_of("user")
    assert made["metadata"]["name"].startswith("user-devices-")
    assert made["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "devices"}
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "user", True)
    await script.delete("user")
    await script.cluster.wait_gone(script.cluster.path("resourceclaims"))
