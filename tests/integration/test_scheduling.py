"""Where pods go and what their claims get: the same scripts on the embedded cluster and on the real control plane."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dra_spawner.devcluster.demo.example_nodes import (
    GPU_CLASS,
    GPU_SHARE_CLASS,
    MIG_CLASS,
    VLAN_NIC_CLASS,
    example_objects,
    resource_slices,
)
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from tests.cluster.under_test import ClusterUnderTest

RESOURCE_API = "resource.k8s.io/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"
ONE_G = 'device.attributes["gpu.example.com"].profile == "1g.5gb"'


def request(device_class: str, name: str = "r", where: str = "", **exactly: Any) -> dict[str, Any]:
    exactly["deviceClassName"] = device_class
    if where:
        exactly["selectors"] = [{"cel": {"expression": where}}]
    return {"name": name, "exactly": exactly}


def share(memory: str) -> dict[str, Any]:
    return request(GPU_SHARE_CLASS, capacity={"requests": {"memory": memory}})


def claim(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests)}}
    return {"apiVersion": RESOURCE_API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, *requests: dict[str, Any]) -> dict[str, Any]:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    return {"apiVersion": RESOURCE_API, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec}


def priority_class(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def pod(name: str, *, cpu: str = "100m", template: str = "", claim: str = "", **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "example.com/image:1",
        "resources": {"requests": {"cpu": cpu}},
    }
    if template or claim:
        source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
        spec["resourceClaims"] = [{"name": "devices", **source}]
        container["resources"]["claims"] = [{"name": "devices"}]
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


class Script:
    """What the tests do to a cluster and look at, in few words."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self.cluster = cluster

    async def publish(self, *objects: dict[str, Any]) -> None:
        await self.cluster.publish(*objects)

    async def run(self, *pods: dict[str, Any]) -> None:
        """Create pods that are expected to find a place."""
        for each in pods:
            await self.publish(each)
            await self.cluster.wait_running(each["metadata"]["name"])

    async def outcome(self, each: dict[str, Any]) -> dict[str, Any]:
        """Create a pod; it, once the scheduler has said yes or no."""
        await self.publish(each)
        return await self.decided(each["metadata"]["name"])

    async def decided(self, name: str) -> dict[str, Any]:
        return await self.cluster.wait_for(self.cluster.path("pods", name), lambda obj: _scheduled(obj) is not None)

    async def waits(self, each: dict[str, Any]) -> str:
        """Create a pod that finds no place; what the scheduler says about it."""
        refused = await self.outcome(each)
        condition = _scheduled(refused)
        assert condition is not None
        assert condition["status"] == "False", condition
        name = each["metadata"]["name"]
        await self.cluster.wait_event(name, "FailedScheduling", text=condition["message"])
        return str(condition["message"])

    async def node_of(self, name: str) -> str:
        return str((await self.cluster.wait_running(name))["spec"]["nodeName"])

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.cluster.admin.delete(self.cluster.path("pods", name))
            await self.cluster.wait_gone(self.cluster.path("pods", name))

    async def claim_of(self, name: str) -> dict[str, Any]:
        (entry,) = (await self.cluster.admin.get(self.cluster.path("pods", name)))["status"]["resourceClaimStatuses"]
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", entry["resourceClaimName"]))

    async def claim(self, name: str) -> dict[str, Any]:
        return await self.cluster.admin.get(self.cluster.path("resourceclaims", name))

    async def devices_of(self, name: str) -> list[tuple[Any, ...]]:
        return devices(await self.claim_of(name))


def _scheduled(obj: dict[str, Any]) -> dict[str, Any] | None:
    conditions = obj["status"].get("conditions") or []
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


def devices(obj: dict[str, Any]) -> list[tuple[Any, ...]]:
    results = obj["status"]["allocation"]["devices"]["results"]
    return [
        (each["pool"], each["device"], *([each["consumedCapacity"]] if "consumedCapacity" in each else []))
        for each in results
    ]


def consumers(obj: dict[str, Any]) -> list[str]:
    return [each["name"] for each in obj["status"].get("reservedFor") or []]


@pytest.fixture
async def script(cluster: ClusterUnderTest) -> Script:
    """The demo's nodes, with pods that only pretend to run."""
    await cluster.start_kubelet(fake=True)
    await cluster.publish(*example_objects())
    return Script(cluster)


NOT_HELPFUL = "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
NO_DEVICES = f"0/4 nodes are available: 4 cannot allocate all claims. still not schedulable, {NOT_HELPFUL}"


async def test_whole_devices(script: Script):
    only_whole = 'device.attributes["gpu.example.com"].productName == "Example H100 80GB"'
    await script.publish(template("gpu", request(GPU_CLASS, where=only_whole)))
    await script.run(*(pod(f"user-{number}", template="gpu") for number in range(4)))
    taken = [await script.devices_of(f"user-{number}") for number in range(4)]
    assert taken == [[("whole-gpus", f"gpu-{number}")] for number in range(4)]
    assert await script.waits(pod("late", template="gpu")) == NO_DEVICES
    await script.delete("user-2")
    assert await script.node_of("late") == "whole-gpus"
    assert await script.devices_of("late") == [("whole-gpus", "gpu-2")]


async def test_shares(script: Script):
    """Steps of 5 GiB: who asks for 12 consumes 15."""
    await script.publish(
        template("t12", share("12Gi")), template("t40", share("40Gi")), template("all", request(GPU_SHARE_CLASS))
    )
    await script.run(pod("one", template="t12"), pod("two", template="t12"), pod("three", template="t12"))
    gpu_0, gpu_1 = ("shared-gpus", "gpu-0", {"memory": "15Gi"}), ("shared-gpus", "gpu-1", {"memory": "15Gi"})
    assert [await script.devices_of(name) for name in ("one", "two", "three")] == [[gpu_0], [gpu_0], [gpu_1]]
    shares = {
        (await script.claim_of(name))["status"]["allocation"]["devices"]["results"][0]["shareID"]
        for name in ("one", "two")
    }
    assert len(shares) == 2
    assert await script.waits(pod("large", template="t40")) == NO_DEVICES
    await script.delete("three")
    assert await script.node_of("large") == "shared-gpus"
    # Whoever does not say how much wants all of it.
    assert await script.waits(pod("greedy", template="all")) == NO_DEVICES
    await script.delete("large")
    assert await script.node_of("greedy") == "shared-gpus"
    assert await script.devices_of("greedy") == [("shared-gpus", "gpu-1", {"memory": "40Gi"})]


async def test_partitions_draw_on_shared_counters(script: Script):
    first_gpu = resource_slices()[2]
    parent = first_gpu["spec"]["devices"][0]["attributes"]["uuid"]["string"]
    of_first = f'device.attributes["gpu.example.com"].parentUUID == "{parent}"'
    profile = 'device.attributes["gpu.example.com"].profile == "{}" && ' + of_first
    whole = 'device.attributes["gpu.example.com"].productName == "Example A100 40GB"'
    await script.publish(
        template("small", request(MIG_CLASS, where=profile.format("1g.5gb"))),
        template("medium", request(MIG_CLASS, where=profile.format("2g.10gb"))),
        template("large", request(MIG_CLASS, where=profile.format("3g.20gb"))),
        template("whole", request(GPU_CLASS, where=whole)),
    )
    await script.run(*(pod(name, template=name) for name in ("large", "medium", "small")))
    # The half that begins at slice 0, then two slices at 4 and one at 6.
    assert [await script.devices_of(name) for name in ("large", "medium", "small")] == [
        [("partitioned-gpus", "gpu-0-mig-3g20gb-9-0")],
        [("partitioned-gpus", "gpu-0-mig-2g10gb-14-4")],
        [("partitioned-gpus", "gpu-0-mig-1g5gb-19-6")],
    ]
    # Its own engines are used up, so there is no room although a memory slice is left.
    assert await script.waits(pod("more", template="small")) == NO_DEVICES
    await script.run(pod("whole", template="whole"))
    assert await script.devices_of("whole") == [("partitioned-gpus", "gpu-1")]
    assert await script.waits(pod("second", template="whole")) == NO_DEVICES
    await script.delete("large")
    assert await script.node_of("more") == "partitioned-gpus"
    assert await script.devices_of("more") == [("partitioned-gpus", "gpu-0-mig-1g5gb-19-0")]


async def test_a_leg_in_a_vlan(script: Script):
    wanted = {"requests": {"bandwidth": "950M", "vlans": "1"}}
    await script.publish(template("leg", request(VLAN_NIC_CLASS, capacity=wanted)))
    await script.run(pod("user", template="leg"))
    assert await script.devices_of("user") == [("vlan-nics", "nic-0", {"bandwidth": "1G", "vlans": "1"})]


async def test_several_requests_of_one_claim(script: Script):
    await script.publish(template("both", share("10Gi"), {**share("20Gi"), "name": "s"}))
    await script.run(pod("user", template="both"))
    results = (await script.claim_of("user"))["status"]["allocation"]["devices"]["results"]
    assert [(each["request"], each["device"], each["consumedCapacity"]) for each in results] == [
        ("r", "gpu-0", {"memory": "10Gi"}),
        ("s", "gpu-0", {"memory": "20Gi"}),
    ]


async def test_pods_that_share_a_claim(script: Script):
    await script.publish(claim("team", share("20Gi")))
    await script.run(pod("one", claim="team", cpu="7"), pod("two", claim="team", cpu="7"))
    assert [await script.node_of(name) for name in ("one", "two")] == ["shared-gpus", "shared-gpus"]
    assert consumers(await script.claim("team")) == ["one", "two"]
    assert await script.waits(pod("three", claim="team", cpu="7")) == (
        "0/4 nodes are available: 1 Insufficient cpu, 3 resourceclaim not available on the node. "
        "still not schedulable, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    )
    await script.delete("one")
    assert await script.node_of("three") == "shared-gpus"
    assert sorted(consumers(await script.claim("team"))) == ["three", "two"]


async def test_standing_claim_is_handed_over(script: Script):
    await script.publish(claim("warm", share("10Gi")))
    await script.run(pod("placeholder", claim="warm"))
    before = (await script.claim("warm"))["status"]["allocation"]
    await script.run(pod("user", claim="warm"))
    await script.delete("placeholder")
    path = script.cluster.path("resourceclaims", "warm")
    after = await script.cluster.wait_for(path, lambda obj: consumers(obj) == ["user"])
    assert after["status"]["allocation"] == before


async def test_hand_over_preempts_the_placeholder_for_cpu(script: Script):
    """The user is reserved only when bound, so the claim may be free for a moment between the two pods: the real claim
    controller releases it now and then. What counts is that the user has it in the end.
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
    user = await script.cluster.admin.get(script.cluster.path("pods", "user"))
    assert "nominatedNodeName" not in user["status"]
    message = f"Preempted by pod {user['metadata']['uid']} on node shared-gpus"
    await script.cluster.wait_event("placeholder", "Preempted", text=message)


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
    # No other pod gets it any more; it waits without a word.
    await script.publish(pod("late", claim="standing"))
    await script.delete("user")
    await script.cluster.wait_gone(path)
    assert _scheduled(await script.cluster.admin.get(script.cluster.path("pods", "late"))) is None


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


async def test_missing_template_is_told(script: Script):
    await script.publish(pod("user", template="absent"))
    message = (
        'PodResourceClaim devices: resource claim template "absent": '
        'resourceclaimtemplate.resource.k8s.io "absent" not found'
    )
    event = await script.cluster.wait_event("user", "FailedResourceClaimCreation")
    assert (event["type"], event["message"]) == ("Warning", message)
    await script.publish(template("absent", share("10Gi")))
    assert await script.node_of("user") == "shared-gpus"


WHOLE_ONLY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["whole-gpus"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        pytest.param(
            pod("user", cpu="17"),
            f"0/4 nodes are available: 4 Insufficient cpu. no new claims to deallocate, {NOT_HELPFUL}",
            id="cpu",
        ),
        pytest.param(
            pod("user", nodeSelector={"no": "node"}),
            "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector. "
            f"no new claims to deallocate, {NOT_HELPFUL}",
            id="selector",
        ),
        pytest.param(
            pod("user", cpu="17", affinity=WHOLE_ONLY),
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. "
            f"no new claims to deallocate, {NOT_HELPFUL}",
            id="one node by name",
        ),
        pytest.param(
            pod("user", template="missing-class"),
            "0/4 nodes are available: request r: device class missing.example.com does not exist. "
            f"no new claims to deallocate, {NOT_HELPFUL}",
            id="class",
        ),
        pytest.param(pod("user", template="too-large"), NO_DEVICES, id="share beyond the device"),
        pytest.param(
            pod("user", template="too-large", cpu="17"),
            f"0/4 nodes are available: 4 Insufficient cpu. still not schedulable, {NOT_HELPFUL}",
            id="cpu before devices",
        ),
        pytest.param(
            pod("user", volumes=[{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]),
            '0/4 nodes are available: persistentvolumeclaim "home" not found. not found',
            id="volume",
        ),
    ],
)
async def test_why_a_pod_waits(script: Script, refused: dict[str, Any], message: str):
    await script.publish(
        template("missing-class", request("missing.example.com")), template("too-large", share("41Gi"))
    )
    assert await script.waits(refused) == message


async def test_no_nodes(cluster: ClusterUnderTest):
    script = Script(cluster)
    assert await script.waits(pod("user")) == "no nodes available to schedule pods"


@pytest.mark.parametrize("broken", ["claim", "class"])
async def test_error_in_a_selector_is_told(script: Script, broken: str):
    """One device without the attribute stops the pod everywhere."""
    where = [{"cel": {"expression": text}} for text in ("true", 'device.attributes["gpu.example.com"].missing == "x"')]
    of_class, of_claim = (where, where[:1]) if broken == "class" else (where[:1], where)
    name = f"{script.cluster.namespace}-class"
    device_class = {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": name}}
    await script.publish(
        {**device_class, "spec": {"selectors": of_class}}, claim("wanted", request(name, selectors=of_claim))
    )
    place = f"class {name}" if broken == "class" else f"claim {script.cluster.namespace}/wanted"
    assert await script.waits(pod("user", claim="wanted")) == (
        f'running "DynamicResources" filter plugin: {place}: selector #1: CEL runtime error: no such key: missing'
    )


async def test_taints_and_tolerations(cluster: ClusterUnderTest):
    await cluster.start_kubelet(fake=True)
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    tainted = {"apiVersion": "v1", "kind": "Node", **node_manifest("tainted", taints=[taint])}
    await cluster.publish(tainted)
    script = Script(cluster)
    assert (await script.waits(pod("user"))).startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: "
    )
    await script.run(pod("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}]))


@pytest.mark.parametrize("seed", [20, 21])
async def test_both_clusters_choose_alike(
    embedded_cluster: ClusterUnderTest, real_cluster: ClusterUnderTest, seed: int
):
    """A random script of many small steps: each has the same outcome, word for word, on both."""
    clusters = (embedded_cluster, real_cluster)
    several_small = {"name": "small", **request(MIG_CLASS, where=ONE_G, count=3)["exactly"]}
    whole = {"name": "whole", **request(GPU_CLASS)["exactly"]}
    wishes = {
        **{f"share-{size}": [share(f"{size}Gi")] for size in (1, 5, 8, 12, 27, 40, 41)},
        "pair": [share("6Gi"), {**share("30Gi"), "name": "s"}],
        "whole": [request(GPU_CLASS)],
        "two-whole": [request(GPU_CLASS, count=2)],
        "small": [request(MIG_CLASS, where=ONE_G)],
        "any-partition": [request(MIG_CLASS)],
        "three-small": [request(MIG_CLASS, where=ONE_G, count=3)],
        "both-kinds": [request(MIG_CLASS), share("10Gi") | {"name": "s"}],
        "leg": [request(VLAN_NIC_CLASS, capacity={"requests": {"bandwidth": "3333M"}})],
        "leg-on-each": [request(VLAN_NIC_CLASS, allocationMode="All", capacity={"requests": {"bandwidth": "100M"}})],
        "all-kinds": [request(MIG_CLASS, count=2), share("3Gi") | {"name": "s"}, request(VLAN_NIC_CLASS, name="t")],
        "small-or-whole": [{"name": "r", "firstAvailable": [several_small, whole]}],
    }
    # All devices on one node, so that no choice between equals is left to chance.
    slices = [{**each, "spec": {**each["spec"], "nodeName": "node"}} for each in resource_slices()]
    others = [each for each in example_objects() if each["kind"] == "DeviceClass"]
    capacity = {"cpu": "64", "memory": "64Gi"}
    objects = [{"apiVersion": "v1", "kind": "Node", **node_manifest("node", capacity=capacity)}, *others, *slices]
    for cluster in clusters:
        await cluster.start_kubelet(fake=True)
        await cluster.publish(*objects, *(template(name, *requests) for name, requests in wishes.items()))
    scripts = [Script(cluster) for cluster in clusters]
    chance = random.Random(seed)
    placed: list[str] = []
    for step in range(60):
        if placed and chance.random() < 0.35:
            gone = placed.pop(chance.randrange(len(placed)))
            for each in scripts:
                claim_name = (await each.claim_of(gone))["metadata"]["name"]
                await each.delete(gone)
                await each.cluster.wait_gone(each.cluster.path("resourceclaims", claim_name))
            continue
        name, wish = f"pod-{step}", chance.choice(sorted(wishes))
        outcomes = []
        for each in scripts:
            condition = _scheduled(await each.outcome(pod(name, template=wish)))
            assert condition is not None
            given = await each.devices_of(name) if condition["status"] == "True" else None
            outcomes.append((condition.get("message"), given))
        assert outcomes[0] == outcomes[1], f"step {step}: {wish}"
        if outcomes[0][1] is not None:
            placed.append(name)
        else:
            for each in scripts:
                await each.delete(name)
    assert placed
