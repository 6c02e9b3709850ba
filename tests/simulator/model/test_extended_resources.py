"""Extended resources that devices stand for, and devices that are part of the node's own CPU or memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.extended_resources import classes_by_resource, extended_resource_claim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.utilization import Utilization
from tests.all_of_them import all_of_them
from tests.dra.builders import device_json, make_slice, request
from tests.simulator.changes import claims_of
from tests.simulator.dump import dump
from tests.simulator.objects import node, pod

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
CLASS = DeviceClass("gpu", ("true",), extended_resource_name=GPU)
KEY = ObjectKey("default", "p")


def container(name: str = "main", kind: str = "", **requests: Any) -> dict[str, Any]:
    """A container; `kind` is empty, init or sidecar. Amounts of GPU are written ``gpu``."""
    amounts = {GPU if key == "gpu" else key: str(amount) for key, amount in requests.items()}
    return {"name": name, "resources": {"requests": amounts}} | (
        {"restartPolicy": "Always"} if kind == "sidecar" else {}
    )


def with_containers(*containers: tuple[str, dict[str, Any]]) -> Pod:
    spec: dict[str, Any] = {"containers": [], "initContainers": []}
    for kind, requests in containers:
        spec["initContainers" if kind else "containers"].append(container(kind=kind, **requests))
    return Pod.from_json({"metadata": {"name": "p", "namespace": "default", "uid": "p"}, "spec": spec})


def cluster(*more: Any, count: int = 2, **options: Any) -> Snapshot:
    devices = make_slice("n1", [device_json(f"d{number}") for number in range(count)], pool="n1", nodeName="n1")
    return Snapshot([node("n1"), node("n2"), node("plugin", {GPU: "1"}), CLASS, devices, *more], **options)


NEW, ALPHA = (f"deviceclass.resource.kubernetes.io/{name}" for name in ("new", "alpha"))
OLD_CLASS = replace(CLASS, created="2026-01-01T00:00:00Z")
NEW_CLASS = DeviceClass("new", (), (), GPU, "2026-02-01T00:00:00Z")
ALPHA_CLASS = DeviceClass("alpha", (), (), GPU)


@all_of_them(
    "classes, expected",
    {
        "explicit and implicit": ([CLASS], {GPU: "gpu", IMPLICIT: "gpu"}),
        "the newest": ([OLD_CLASS, NEW_CLASS], {GPU: "new", IMPLICIT: "gpu", NEW: "new"}),
        "equally old: the first by name": ([CLASS, ALPHA_CLASS], {GPU: "alpha", IMPLICIT: "gpu", ALPHA: "alpha"}),
    },
)
def test_classes_of_resources(classes, expected):
    for order in (classes, classes[::-1]):
        assert {name: item.name for name, item in classes_by_resource(order).items()} == expected


@all_of_them(
    "containers, expected",
    {
        # Kind and requests of each container; devices by number of the container and of its request.
        "one container": ([("", {"gpu": 2})], {"0 0": 2}),
        "numbered among all its requests": ([("", {"cpu": 1, "gpu": 2})], {"0 1": 2}),
        "several containers": ([("", {"gpu": 1}), ("", {"cpu": 1}), ("", {"gpu": 2})], {"0 0": 1, "2 0": 2}),
        "init container reuses": ([("init", {"gpu": 1}), ("", {"gpu": 2})], {"1 0": 2}),
        "init container needs more": ([("init", {"gpu": 3}), ("", {"gpu": 2})], {"0 0": 1, "1 0": 2}),
        "only the largest init container counts": (
            [("init", {"gpu": 3}), ("init", {"gpu": 4}), ("", {"gpu": 2})],
            {"1 0": 2, "2 0": 2},
        ),
        "a sidecar before is not free, a later container is": (
            [("sidecar", {"gpu": 1}), ("init", {"gpu": 1}), ("", {"gpu": 1})],
            {"0 0": 1, "2 0": 1},
        ),
        "none": ([("", {"gpu": 0})], {}),
    },
)
def test_the_claim(containers, expected):
    claim = extended_resource_claim(with_containers(*containers), [GPU], classes_by_resource([CLASS]))
    found = {request.name: request.exactly.count for request in claim.requests if request.exactly is not None}
    names = {key: "container-{}-request-{}".format(*key.split()) for key in expected}
    assert found == {names[key]: count for key, count in expected.items()}
    assert [request.name for request in claim.requests] == sorted(found)


@all_of_them("resource", {"explicit": GPU, "implicit": IMPLICIT})
def test_devices_where_no_plugin_offers_the_resource(resource):
    snapshot = cluster()
    fit = snapshot.fits(pod("p", {resource: "1"}))
    assert fit.fitting == (("n1", "plugin") if resource == GPU else ("n1",))
    assert str(fit.nodes["n2"]) == "no devices"


def test_a_class_that_is_not_there():
    fit = cluster().fits(pod("p", {"example.com/other": "1"}))
    assert {str(answer) for answer in fit.nodes.values()} == {"Insufficient example.com/other"}


def test_the_claim_is_made_and_removed_with_the_pod():
    snapshot = cluster()
    before = dump(snapshot)
    assert snapshot.schedule(pod("p", {GPU: "2"}), "n1").fits
    (made,) = claims_of(snapshot, snapshot.pods[KEY])
    assert made is not None
    assert [device.id.device for device in made.claim.status.devices or ()] == ["d0", "d1"]
    assert made.is_for_extended_resources
    assert made.is_reserved_for(snapshot.pods[KEY])
    assert not snapshot.schedule(pod("q", {GPU: "1"}), "n1").fits
    snapshot.remove_pod(KEY)
    assert dump(snapshot) == before


def test_a_plugins_device_needs_no_claim():
    snapshot = cluster()
    assert snapshot.schedule(pod("p", {GPU: "1"}), "plugin").fits
    assert not snapshot.claims
    assert str(snapshot.schedule(pod("q", {GPU: "1"}), "plugin")) == "Insufficient example.com/gpu"


def test_devices_of_the_claim_count_for_the_nodes_utilization():
    snapshot = cluster()
    assert Utilization(snapshot).of("n1").weighted.figure == 0
    assert snapshot.schedule(pod("p", {GPU: "1"}), "n1").fits
    used = Utilization(snapshot).of("n1")
    assert used.weighted.figure == Fraction(1, 2)
    # cluster-autoscaler looks at the claims that a pod's spec names, and at no others.
    assert used.autoscaler.highest == 0


def test_a_claim_left_by_an_earlier_attempt():
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    metadata = {"name": "left", "namespace": "default", "ownerReferences": [owner], "annotations": annotations}
    left = TrackedClaim.from_json({"metadata": metadata, "spec": {"devices": {"requests": [request()]}}})
    fit = cluster(left).fits(pod("p", {GPU: "1"}))
    assert str(fit.nodes["n1"]) == "cannot schedule extended resource claim"


def test_resources_of_a_running_pods_devices_count():
    running = Pod.from_json(
        {
            "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "2"}}]},
        }
    )
    assert Snapshot([node("n1"), running]).nodes["n1"].requested["cpu"] == 3000
