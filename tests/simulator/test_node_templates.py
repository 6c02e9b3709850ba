"""One more node of a kind: templates, their names, and the objects of a new node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.dra.model.node_selector import node_name_selector
from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.node_templates import TemplateError, add_node, template_of
from dra_spawner.simulator.snapshot import Snapshot, SnapshotError
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, counter_slice, device_json, make_slice, request, result, share, slice_json
from tests.simulator.changes import claims_of, take_down_node
from tests.simulator.dump import dump
from tests.simulator.objects import node, pod, required_nodes

GPU = DeviceClass("gpu", (f"device.driver == '{DRIVER}'",))
NODE_LOCAL = node_name_selector("n1").to_json()


def daemon(name: str = "agent", **spec: Any) -> Pod:
    """A DaemonSet's pod on node n1."""
    affinity = required_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
    return replace(pod(name, nodeName="n1", affinity=affinity, **spec), controller="DaemonSet")


def claim_of(pod_name: str, *results: Any, selector: Any = NODE_LOCAL, admin: bool = False) -> TrackedClaim:
    """The claim ``agent-gpu`` that was made for a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_name, "controller": True}
    metadata = {
        "name": f"{pod_name}-gpu",
        "namespace": "default",
        "uid": f"{pod_name}-gpu",
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
    }
    allocation = {"devices": {"results": list(results)}} | ({"nodeSelector": selector} if selector else {})
    consumer = {"resource": "pods", "name": pod_name, "uid": pod_name}
    status = {"allocation": allocation, "reservedFor": [consumer]} if results else {}
    wanted = request(adminAccess=True) if admin else request()
    return TrackedClaim.from_json({"metadata": metadata, "spec": {"devices": {"requests": [wanted]}}, "status": status})


def uses_claim(name: str = "agent-gpu") -> dict[str, Any]:
    """A pod whose claim was made from template ``gpu``."""
    return {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]},
    }


def gpu_slice(count: int = 2, **more: Any) -> Any:
    return make_slice("n1-gpu", [device_json(f"d{number}") for number in range(count)], pool="n1", **more)


def cluster(*more: Any) -> Snapshot:
    return Snapshot([node("n1"), GPU, *more])


def wants_gpu(name: str = "user", **spec: Any) -> Pod:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}], **spec)


ONE_GPU = ClaimTemplate.from_json(
    {
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request()]}}},
    }
)


def test_names():
    snapshot = cluster(gpu_slice(), daemon(**uses_claim()), claim_of("agent", result("d0", pool="n1")))
    added = add_node(snapshot, template_of(snapshot, "n1"), "x1")
    assert (added.name, added.misfits) == ("n1-x1", {})
    assert snapshot.nodes["n1-x1"].node.labels["kubernetes.io/hostname"] == "n1-x1"
    new = snapshot.slices["n1-gpu-x1"]
    assert (new.pool_id, new.node_name) == ((DRIVER, "n1-x1"), "n1-x1")
    assert [device.id for device in new.devices] == [(DRIVER, "n1-x1", "d0"), (DRIVER, "n1-x1", "d1")]
    agent = snapshot.pods[ObjectKey("default", "agent-x1")]
    assert (agent.node_name, agent.claims[0].claim) == ("n1-x1", "agent-gpu-x1")
    claim = snapshot.claims[ObjectKey("default", "agent-gpu-x1")]
    assert [device.id for device in claim.claim.status.devices or ()] == [(DRIVER, "n1-x1", "d0")]
    assert claim.claim.status.node_selector == node_name_selector("n1-x1")
    assert claim.is_reserved_for(agent)
    assert claim.belongs_to(agent)


def test_the_old_node_is_unchanged():
    snapshot = cluster(gpu_slice(), daemon(**uses_claim()), claim_of("agent", result("d0", pool="n1")))
    before = dump(snapshot)
    with snapshot.trial():
        add_node(snapshot, template_of(snapshot, "n1"), "x1")
        assert dump(snapshot) != before
    assert dump(snapshot) == before


def test_names_that_are_too_long_are_cut():
    long = "a" * 62 + "-b"
    snapshot = Snapshot([replace(node("n1"), labels={"kubernetes.io/hostname": long})])
    added = add_node(snapshot, template_of(snapshot, "n1"), "x1")
    assert snapshot.nodes[added.name].node.labels["kubernetes.io/hostname"] == "a" * 60 + "-x1"


def test_one_more_node_from_none_of_its_kind():
    snapshot = cluster(gpu_slice(1), ONE_GPU)
    template = template_of(snapshot, "n1")
    take_down_node(snapshot, "n1")
    assert not isinstance(snapshot.place(wants_gpu()), str)
    with snapshot.trial():
        add_node(snapshot, template, "x1")
        assert snapshot.place(wants_gpu("first")) == "n1-x1"
        refused = snapshot.fits(wants_gpu("second"))
        assert str(refused.nodes["n1-x1"]) == "in use"
        add_node(snapshot, template, "x2")
        assert snapshot.place(wants_gpu("second")) == "n1-x2"
    assert not snapshot.nodes


def test_devices_of_daemon_pods_are_not_free():
    snapshot = cluster(gpu_slice(1), ONE_GPU, daemon(**uses_claim()), claim_of("agent", result("d0", pool="n1")))
    add_node(snapshot, template_of(snapshot, "n1"), "x1")
    assert snapshot.fits(wants_gpu()).fitting == ()


def test_shares_and_counters_are_copied():
    devices = [device_json("d0", capacity={"memory": "4Gi"}, allowMultipleAllocations=True)]
    part = device_json("p0", counters={"card": {"slots": "1"}})
    snapshot = cluster(
        make_slice("shared", devices, pool="n1"),
        counter_slice("counters", {"card": {"slots": "2"}}, pool="parts", count=2),
        make_slice("parts", [part], pool="parts", count=2),
        daemon(**uses_claim()),
        claim_of("agent", {**share("d0", memory="3Gi"), "pool": "n1"}),
    )
    add_node(snapshot, template_of(snapshot, "n1"), "x1")
    allocated = snapshot.state.devices.allocated
    known = snapshot.slices["shared-x1"].devices[0].id
    assert allocated.consumed_capacity(known) == {"memory": 3 * 2**30 * 10**9}
    assert snapshot.slices["counters-x1"].pool_id == snapshot.slices["parts-x1"].pool_id == (DRIVER, "parts-x1")


def test_admin_access_to_devices_that_are_not_the_nodes_own():
    fabric = make_slice("fabric", [device_json("f0")], pool="fabric", allNodes=True)
    watching = result("f0", pool="fabric", adminAccess=True)
    snapshot = cluster(fabric, daemon(**uses_claim()), claim_of("agent", watching, selector=None, admin=True))
    added = add_node(snapshot, template_of(snapshot, "n1"), "x1")
    assert added.misfits == {}
    copy = snapshot.claims[ObjectKey("default", "agent-gpu-x1")].claim
    assert [each.id for each in copy.status.devices or ()] == [(DRIVER, "fabric", "f0")]


FABRIC = make_slice("fabric", [device_json("f0")], pool="fabric", allNodes=True)
OF_ALL_NODES = claim_of("agent", result("f0", pool="fabric"), selector=None)
NOT_OF_THE_NODE = claim_of("agent", result("d0", pool="n1"), selector=None)
HALF = make_slice("half", [device_json("d0")], pool="n1", count=2)


@all_of_them(
    "more, problem",
    {
        "device of all nodes": (
            [FABRIC, daemon(**uses_claim()), OF_ALL_NODES],
            "claim default/agent-gpu has device gpu.example.com/fabric/f0, which is not the node's own",
        ),
        "allocated for all nodes": (
            [gpu_slice(), daemon(**uses_claim()), NOT_OF_THE_NODE],
            "claim default/agent-gpu is allocated for other nodes, too",
        ),
        "incomplete pool": (
            [HALF],
            "pool gpu.example.com/n1 is incomplete, or not the node's own: generation 1 has 1 of 2 slices here",
        ),
    },
)
def test_no_template(more, problem):
    snapshot = cluster(*more)
    with pytest.raises(TemplateError, match=problem):
        template_of(snapshot, "n1")


def test_only_the_newest_generation_is_copied():
    snapshot = cluster(gpu_slice(), make_slice("newer", [device_json("d0")], pool="n1", generation=2))
    assert [item.name for item in template_of(snapshot, "n1").slices] == ["newer"]


def test_a_slice_that_makes_no_sense():
    snapshot = cluster()
    snapshot.apply(slice_json(devices=[{"name": "d0", "capacity": 5}]))
    with pytest.raises(TemplateError, match="capacity"):
        template_of(snapshot, "n1")


def test_a_shared_claim_of_a_daemon_pod_is_not_copied():
    elsewhere = claim_of("agent", result("d0", pool="n1"))
    shared = replace(elsewhere, owner="", owner_uid="", entry="")
    user = daemon(resourceClaims=[{"name": "gpu", "resourceClaimName": "agent-gpu"}])
    snapshot = cluster(gpu_slice(), user, shared)
    added = add_node(snapshot, template_of(snapshot, "n1"), "x1")
    (answer,) = added.misfits.values()
    assert str(answer) == "resourceclaim not available on the node"
    assert ObjectKey("default", "agent-x1") not in snapshot.pods


def test_claims_without_devices_get_some():
    template = ClaimTemplate("gpu", "default", ONE_GPU.pattern)
    unplaced = replace(daemon(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]), node_name="n1")
    snapshot = cluster(gpu_slice(1), template, unplaced)
    add_node(snapshot, template_of(snapshot, "n1"), "x1")
    (claim,) = claims_of(snapshot, snapshot.pods[ObjectKey("default", "agent-x1")])
    assert claim is not None
    assert [device.id.pool for device in claim.claim.status.devices or ()] == ["n1-x1"]


def test_state_of_one_node_is_not_its_kind():
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]
    labels = {"zone": "a", names.DRAINING: names.ORDERED, names.ATTRACT: names.TRUE, names.IMAGES_READY: names.LATE}
    broken = make_slice(devices=[device_json("d0", taints=[{"key": "broken", "effect": "NoExecute"}])])
    old = replace(node("n1", taints=taints, unschedulable=True, labels=labels), is_ready=False)
    template = template_of(Snapshot([old, broken]), "n1")
    new = template.node
    assert [taint.key for taint in new.taints] == ["gpu"]
    assert not new.is_unschedulable
    assert new.is_ready
    assert names.LATE not in new.labels.values()
    assert not {names.DRAINING, names.ATTRACT} & new.labels.keys()
    assert [each.taints for item in template.slices for each in item.devices] == [()]


def test_static_pods_are_present_on_new_nodes():
    static = replace(pod("proxy", {"cpu": "1"}, nodeName="n1"), controller="Node")
    snapshot = Snapshot([node("n1", taints=[{"key": "gpu", "effect": "NoSchedule"}]), static])
    added = add_node(snapshot, template_of(snapshot, "n1"), "x1")
    assert added.misfits == {}
    assert [each.name for each in snapshot.nodes["n1-x1"].pods] == ["proxy-x1"]


def test_users_pods_do_not_come_with_a_node():
    snapshot = cluster(pod("user", nodeName="n1"), replace(daemon("leaving"), is_deleted=True))
    assert template_of(snapshot, "n1").pods == ()


def test_devices_of_several_nodes_are_noted():
    devices = [device_json("d0", nodeName="n1"), device_json("d1", nodeName="n2")]
    template = template_of(cluster(make_slice("rack", devices, perDeviceNodeSelection=True)), "n1")
    assert template.slices == ()
    assert template.notes == ("slice rack: pool gpu.example.com/p has devices of several nodes",)


def test_a_name_that_is_taken():
    snapshot = cluster(gpu_slice())
    template = template_of(snapshot, "n1")
    add_node(snapshot, template, "x1")
    before = dump(snapshot)
    with pytest.raises(SnapshotError, match="node n1-x1 exists already"):
        add_node(snapshot, template, "x1")
    assert dump(snapshot) == before
