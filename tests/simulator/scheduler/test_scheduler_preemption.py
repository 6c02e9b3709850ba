"""Preemption in a snapshot: behaviour that was measured on a real control plane."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.snapshot import Snapshot
from tests.dra.builders import device_json, make_slice, request
from tests.simulator.dump import dump
from tests.simulator.objects import node, pod
from tests.simulator.preempting import find_preemption, place_by_preemption

SPEC = {"devices": {"requests": [request()]}}
WARM = TrackedClaim.from_json({"metadata": {"name": "warm", "namespace": "default", "uid": "warm"}, "spec": SPEC})
TEMPLATE = ClaimTemplate.from_json({"metadata": {"name": "t", "namespace": "default"}, "spec": {"spec": SPEC}})


def cluster(*more: Any) -> Snapshot:
    """One node with one device."""
    gpu = make_slice("n1", [device_json("d0")], pool="n1", nodeName="n1")
    return Snapshot([node("n1"), DeviceClass("gpu", ("true",)), gpu, TEMPLATE, *more])


def placeholder(**spec: Any) -> Any:
    return pod("placeholder", {"cpu": "3"}, priority=-10, **spec)


def names(where: Any) -> Any:
    return (where[0], [victim.name for victim in where[1]]) if isinstance(where, tuple) else where


def test_a_pod_preempts_a_lesser_pod():
    snapshot = cluster()
    snapshot.place(placeholder())
    assert names(place_by_preemption(snapshot, pod("user", {"cpu": "3"}))) == ("n1", ["placeholder"])
    assert [each.name for each in snapshot.pods] == ["user"]


def test_no_pod_is_preempted_without_need():
    snapshot = cluster()
    snapshot.place(placeholder())
    assert find_preemption(snapshot, pod("user", {"cpu": "1"})) is None
    assert names(place_by_preemption(snapshot, pod("user", {"cpu": "1"}))) == ("n1", [])


def test_no_device_is_freed_by_preemption():
    snapshot = cluster()
    reference = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    assert snapshot.place(placeholder(resourceClaims=reference)) == "n1"
    before = dump(snapshot)
    assert isinstance(place_by_preemption(snapshot, pod("user", {"cpu": "1"}, resourceClaims=reference)), PodFit)
    assert dump(snapshot) == before


def test_a_claim_is_handed_over():
    # The user's pod names the placeholder's shared claim, which keeps its device although a better one is free.
    snapshot = cluster(WARM, make_slice("n1", [device_json("d0"), device_json("d1")], pool="n1", nodeName="n1"))
    reference = [{"name": "gpu", "resourceClaimName": "warm"}]
    snapshot.place(pod("first", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]))
    snapshot.place(placeholder(resourceClaims=reference))
    snapshot.remove_pod(ObjectKey("default", "first"))
    found = place_by_preemption(snapshot, pod("user", {"cpu": "3"}, resourceClaims=reference))
    assert names(found) == ("n1", ["placeholder"])
    claim = snapshot.claims[ObjectKey("default", "warm")]
    assert [consumer.name for consumer in claim.consumers] == ["user"]
    assert [device.id.device for device in claim.claim.status.devices or ()] == ["d1"]


def test_a_missing_claim_cannot_be_helped():
    snapshot = cluster()
    lost = pod("user", resourceClaims=[{"name": "gpu", "resourceClaimName": "gone"}])
    assert find_preemption(snapshot, lost) is None
    assert isinstance(place_by_preemption(snapshot, lost), PodFit)
