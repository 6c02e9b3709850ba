"""Snapshot: claims from made to gone, by pods and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_spawner.dra.node_selector import node_name_selector
from dra_spawner.dra.objects import ConsumerReference
from dra_spawner.simulator.claims import TrackedClaim
from dra_spawner.simulator.dump import dump
from dra_spawner.simulator.fitting import PodFit
from tests.dra.builders import result
from tests.simulator.objects import pod
from tests.simulator.small_cluster import (
    claim,
    cluster,
    consumers_of,
    devices_of,
    gpu_slice,
    key,
    template,
    with_claim,
    with_template,
)


def test_claims_go_with_the_pod_they_were_made_for():
    snapshot = cluster(template())
    before = dump(snapshot)
    snapshot.schedule(with_template(), "n1")
    snapshot.remove_pod(key("p"))
    assert dump(snapshot) == before


def test_a_standing_claim_is_deallocated_after_its_last_pod():
    snapshot = cluster(claim())
    for name in ("p1", "p2"):
        snapshot.schedule(with_claim(name), "n1")
    snapshot.remove_pod(key("p1"))
    assert (devices_of(snapshot, "c"), consumers_of(snapshot, "c")) == (["d0"], ["p2"])
    snapshot.remove_pod(key("p2"))
    assert devices_of(snapshot, "c") is None
    assert snapshot.fits(with_claim("p3")).fitting == ("n1",)


def test_an_allocation_without_finalizer_is_not_the_controllers_business():
    kept = claim("c", result("d0", pool="n1"), users=("p",), metadata={"finalizers": []})
    snapshot = cluster(kept, with_claim(nodeName="n1"))
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


def test_a_claim_made_for_a_pod_that_others_use_goes_after_them():
    shared = claim("c", result("d0", pool="n1"), users=("p", "q"), owner="p")
    snapshot = cluster(shared, with_template("p", nodeName="n1"), with_claim("q", nodeName="n1"))
    snapshot.remove_pod(key("p"))
    assert snapshot.claims[key("c")].is_deleted
    snapshot.remove_pod(key("q"))
    assert not snapshot.claims


def test_settling_does_what_the_claim_controller_is_yet_to_do():
    snapshot = cluster(
        claim("standing", result("d0", pool="n1"), users=("gone",)),
        claim("made", result("d1", pool="n1"), users=("gone",), owner="gone"),
        claim("used", result("x"), users=("p",)),
        claim("foreign", result("y")).with_consumers((ConsumerReference("podgroups", "g", "g"),)),
        pod("p", nodeName="n1"),
    )
    snapshot.settle_claims()
    assert sorted(each.name for each in snapshot.claims) == ["foreign", "standing", "used"]
    assert devices_of(snapshot, "standing") is None
    assert (consumers_of(snapshot, "used"), consumers_of(snapshot, "foreign")) == (["p"], ["g"])


def elsewhere(users: tuple[str, ...] = ()) -> TrackedClaim:
    """The claim, allocated on node n1."""
    selector = node_name_selector("n1").to_json()
    return claim("c", result("d0", pool="n1"), users=users, nodeSelector=selector)


def test_a_claim_that_nobody_else_uses_moves():
    # A handover that failed: the placeholder is gone, its node is full, the claim is still there.
    snapshot = cluster(gpu_slice("n2"), elsewhere(), pod("full", {"cpu": "4"}, nodeName="n1"))
    late = with_claim("p", requests={"cpu": "1"})
    assert isinstance(snapshot.place(late), PodFit)
    assert snapshot.release_idle_claims(late) == (key("c"),)
    assert snapshot.place(late) == "n2"
    assert snapshot.release_idle_claims(late) == ()


@pytest.mark.parametrize(
    ("users", "released"),
    [
        pytest.param((), True, id="nobody"),
        pytest.param(("p",), True, id="itself"),
        pytest.param(("q",), False, id="another"),
    ],
)
def test_claims_in_use_stay(users, released):
    snapshot = cluster(elsewhere(users), with_claim("p"))
    assert bool(snapshot.release_idle_claims(with_claim("p"))) == released
    assert (devices_of(snapshot, "c") is None) == released


def test_allocate_reserve_and_back():
    snapshot = cluster(claim())
    before = dump(snapshot)
    user = with_claim("p")
    snapshot.allocate(key("c"), "n1")
    assert devices_of(snapshot, "c") == ["d0"]
    snapshot.reserve(key("c"), user)
    snapshot.reserve(key("c"), user)
    assert consumers_of(snapshot, "c") == ["p"]
    snapshot.unreserve(key("c"), user)
    assert devices_of(snapshot, "c") is None
    snapshot.allocate(key("c"), "n1")
    snapshot.deallocate(key("c"))
    after = dump(snapshot)
    # Only the finalizer has come and gone.
    assert after["holders"] == before["holders"]
    assert after["claims_reserved_for"] == before["claims_reserved_for"]
