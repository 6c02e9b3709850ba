"""Snapshot: claims from made to gone, by pods and by hand."""

from __future__ import annotations

from dataclasses import replace

from tests.dra.builders import result
from tests.simulator.dump import dump
from tests.simulator.small_cluster import (
    claim,
    cluster,
    consumers_of,
    devices_of,
    key,
    template,
    with_claim,
    with_template,
)


def test_claims_are_removed_with_their_pod():
    snapshot = cluster(template())
    before = dump(snapshot)
    snapshot.schedule(with_template(), "n1")
    snapshot.remove_pod(key("p"))
    assert dump(snapshot) == before


def test_a_shared_claim_is_deallocated_after_its_last_pod():
    snapshot = cluster(claim())
    for name in ("p1", "p2"):
        snapshot.schedule(with_claim(name), "n1")
    snapshot.remove_pod(key("p1"))
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p2"])
    snapshot.remove_pod(key("p2"))
    assert devices_of(snapshot, "c") is None
    assert snapshot.fits(with_claim("p3")).fitting == ("n1",)


def test_an_allocation_without_finalizer_is_not_the_controllers_business():
    without_finalizer = claim("c", result("d0", pool="n1"), users=("p",), metadata={"finalizers": []})
    snapshot = cluster(without_finalizer, with_claim(nodeName="n1"))
    snapshot.remove_pod(key("p"))
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], [])


def test_a_pod_that_has_ended_needs_nothing():
    snapshot = cluster(template())
    snapshot.schedule(with_template(requests={"cpu": "3"}), "n1")
    snapshot.put(replace(snapshot.pods[key("p")], phase="Succeeded"))
    assert not snapshot.claims
    assert snapshot.nodes["n1"].requested.get("cpu", 0) == 0


def test_a_pod_of_the_same_name_is_another_pod():
    snapshot = cluster(claim("c", result("d0", pool="n1"), users=("old",)), with_claim("old", nodeName="n1"))
    snapshot.put(with_claim("old", uid="new"))
    assert devices_of(snapshot, "c") is None


def test_a_pods_claim_is_removed_after_its_last_consumer():
    shared = claim("c", result("d0", pool="n1"), users=("p", "q"), owner="p")
    snapshot = cluster(shared, with_template("p", nodeName="n1"), with_claim("q", nodeName="n1"))
    snapshot.remove_pod(key("p"))
    assert snapshot.claims[key("c")].is_deleted
    snapshot.remove_pod(key("q"))
    assert not snapshot.claims
