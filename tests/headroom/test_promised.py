"""A place is promised on a full node: the placeholder goes at once, and nobody else gets what it kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.dra.claims import ConsumerReference
from dra_spawner.headroom.actions import Cause, CreatePlaceholder, DeleteClaim, PromiseEnd, ReleaseClaim, ReserveClaim
from dra_spawner.headroom.placement import Placement, PlacementKind
from dra_spawner.headroom.promised import promised_places
from dra_spawner.simulator.claims import ObjectKey
from tests.headroom.device_hub import ended, hub, placement
from tests.headroom.world import NAMESPACE, World, gpu_claim, user_shape

BIG = user_shape({"gpu": gpu_claim()}, cpu="6")
PLAIN = user_shape(cpu="6")
ADA = ObjectKey(NAMESPACE, "ada")


def full_node(*more: tuple[object, int, int], keep: int = 1) -> World:
    """A node that a placeholder with a GPU fills; a second one has no room."""
    world = hub((BIG, keep, keep), (PLAIN, 0, 0), *more)
    world.node("a", cpu="10", gpus=1)
    world.settle()
    return world


def places(world: World) -> list[tuple[ObjectKey, str, str]]:
    return [(each.pod, each.node, each.shape) for each in promised_places(world.view())]


def promised(world: World) -> tuple[Placement, ObjectKey]:
    found = placement(world, BIG)
    assert found.kind is PlacementKind.WARM
    return found, ObjectKey(NAMESPACE, world.promise(found, "ada"))


def test_the_pod_gets_its_place_and_the_very_device() -> None:
    world = full_node()
    (kept,) = world.view().placeholders.values()
    device = world.snapshot.claims[kept.claims[0]].claim.status.devices
    found, claim = promised(world)
    assert not found.others_wait
    assert kept.key not in world.snapshot.pods, "it went with the promise"
    assert world.snapshot.claims[claim].claim.status.devices == device
    world.decide()
    assert not world.actions(ReserveClaim), "nothing is in the way of its pod"
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6")
    world.schedule()
    assert world.where("ada") == "a"
    world.settle()
    tracked = world.snapshot.claims[claim]
    ada = world.snapshot.pods[ADA]
    assert tracked.claim.status.devices == device
    assert [each.name for each in tracked.consumers] == ["ada"], "the promise is kept, and gone"
    assert tracked.is_reserved_for(ada)
    assert ada.uid in tracked.owner_uids, "it goes with its pod"


@pytest.mark.parametrize("shape", [PLAIN, BIG], ids=["plain", "device"])
def test_nobody_else_is_sent_there_meanwhile(shape: object) -> None:
    world = full_node()
    promised(world)
    assert places(world) == [(ADA, "a", BIG.id)]
    found = placement(world, shape)
    assert found.kind is PlacementKind.SCALE_UP
    before = dict(world.snapshot.pods)
    world.decide()
    assert world.snapshot.pods.keys() >= before.keys(), "what is supposed is supposed only"


def test_its_room_is_free_for_others_when_nobody_comes() -> None:
    world = full_node()
    _, claim = promised(world)
    world.pass_time(seconds=31)
    world.run(minutes=3)
    assert claim not in world.snapshot.claims
    assert [each.claim for each in world.actions(DeleteClaim)] == [claim]
    assert placement(world, BIG).kind is PlacementKind.WARM, "a new one is kept"


def test_what_a_start_leaves_when_it_fails_is_let_go() -> None:
    """The hub deletes the claim; Kubernetes keeps it as long as somebody is among its consumers."""
    world = full_node()
    _, claim = promised(world)
    world.snapshot.put(replace(world.snapshot.claims[claim], is_deleted=True))
    world.decide()
    assert [each.claim for each in world.actions(ReleaseClaim)] == [claim]
    assert claim not in world.snapshot.claims


def test_a_pod_that_came_without_it_costs_its_claim() -> None:
    """It was made without the answer, which came too late; the device is kept for nobody any more."""
    world = full_node()
    _, claim = promised(world)
    world.pass_time(seconds=5)
    world.user("ada", {"gpu": gpu_claim()}, cpu="6")
    world.run(minutes=0.2)
    assert not world.snapshot.claims[claim].claim.is_allocated, "long before the promise is over"
    assert world.where("ada") == "a"


def test_a_pod_that_has_ended_keeps_no_promise() -> None:
    """It failed before its promise was seen to be kept."""
    world = full_node()
    _, claim = promised(world)
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6")
    world.schedule()
    world.snapshot.put(replace(world.snapshot.pods[ADA], phase="Failed"))
    world.decide()
    assert not world.actions(ReleaseClaim), "it may be made again by that name"
    world.pass_time(seconds=31)
    world.decide()
    assert [each.end for each in world.actions(ReleaseClaim)] == [PromiseEnd.EXPIRED]
    assert not world.snapshot.claims[claim].claim.is_allocated


def room_is_taken(world: World) -> ObjectKey:
    """Somebody whom nobody expected is on the node before the pod comes."""
    _, claim = promised(world)
    world.user("eve", cpu="6")
    world.schedule()
    assert world.where("eve") == "a"
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6")
    world.schedule()
    return claim


def test_a_pod_whose_room_was_taken_may_go_elsewhere() -> None:
    """The claim alone binds it to the node; without the promise the scheduler gives it other devices."""
    world = full_node()
    claim = room_is_taken(world)
    assert not world.where("ada")
    world.decide()
    assert not world.actions(ReleaseClaim), "the scheduler has not looked at it yet"
    world.refused["ada"] = "0/1 nodes are available: 1 Insufficient cpu."
    world.decide()
    assert [each.claim for each in world.actions(ReleaseClaim)] == [claim]
    assert not world.snapshot.claims[claim].consumers
    told = next(each for each in world.last.waiting if each.pod == ADA)
    assert told.needs_node


def test_the_scheduler_preempts_another_placeholder_where_the_room_was_taken() -> None:
    """Only for CPU: the device is the pod's already."""
    bigger = user_shape({"gpu": gpu_claim()}, cpu="7")
    world = hub((BIG, 1, 1), (PLAIN, 0, 0), (bigger, 1, 1))
    world.node("a", cpu="14", gpus=2)
    world.settle()
    (other,) = (each.key.name for each in world.view().warm(bigger.id))
    claim = room_is_taken(world)
    assert world.where("ada") == "a"
    assert world.preempted == [other]
    world.decide()
    assert [each.claim for each in world.actions(ReleaseClaim)] == [claim], "kept"


def test_the_placeholder_stays_where_another_pod_waits_for_just_that_room() -> None:
    """It goes when the pod is there, which then is in the queue as well."""
    world = full_node()
    world.user("eve", cpu="6")
    world.refused["eve"] = "it comes later"
    found = placement(world, BIG)
    assert found.others_wait
    claim = ObjectKey(NAMESPACE, world.promise(found, "ada"))
    kept = found.placeholder.key
    world.decide()
    assert kept in world.snapshot.pods
    world.user("ada", claim_names={"gpu": claim.name}, cpu="6")
    world.decide()
    assert kept not in world.snapshot.pods
    assert len(ended(world, Cause.HANDED_OVER)) == 1
    assert not world.actions(ReserveClaim), "the promise keeps the devices"
    waiting = {each.pod.name: each for each in world.last.waiting}
    assert waiting["ada"].reason == f"takes over what {kept} kept on node a"
    assert not waiting["ada"].needs_node
    world.schedule()
    assert world.where("ada") == "a"


def test_no_node_is_asked_for_while_its_placeholder_is_about_to_go() -> None:
    world = full_node()
    world.user("eve", cpu="6")
    world.refused["eve"] = "it comes later"
    found = placement(world, BIG)
    claim = world.promise(found, "ada")
    world.user("ada", claim_names={"gpu": claim}, cpu="6")
    world.decide()
    assert [each.beside for each in world.actions(CreatePlaceholder) if each.beside == ADA] == []


def test_pods_with_a_promise_of_their_own_do_not_count_as_waiting() -> None:
    """A hundred may start at once; each has its room."""
    world = hub((BIG, 2, 2))
    world.node("a", cpu="12", gpus=2)
    world.settle()
    first = placement(world, BIG)
    claim = world.promise(first, "ada")
    world.user("ada", claim_names={"gpu": claim}, cpu="6")
    second = placement(world, BIG)
    assert (second.kind, second.others_wait) == (PlacementKind.WARM, False)


@pytest.mark.parametrize("more", [20, 21])
def test_with_many_that_wait_one_would_take_it(more: int) -> None:
    world = full_node()
    for number in range(more):
        world.user(f"user-{number}", cpu="11")
        world.refused[f"user-{number}"] = "it comes later"
    assert placement(world, BIG).others_wait == (more > 20)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda claim: replace(claim, labels={}), id="nobody-knows-for-whom"),
        pytest.param(lambda claim: replace(claim, is_deleted=True), id="deleted"),
        pytest.param(lambda claim: claim.deallocated(), id="deallocated"),
    ],
)
def test_what_is_no_promise_keeps_no_room(change: Callable[[object], object]) -> None:
    world = full_node()
    _, claim = promised(world)
    world.snapshot.put(change(world.snapshot.claims[claim]))
    assert promised_places(world.view()) == ()


def test_all_claims_of_a_pod_are_held() -> None:
    two = user_shape({"gpu": gpu_claim(), "more": gpu_claim()}, cpu="6")
    world = hub((two, 1, 1), (PLAIN, 0, 0))
    world.node("a", cpu="10", gpus=2)
    world.settle()
    (kept,) = world.view().placeholders.values()
    world.promise(placement(world, two), "ada")
    (place,) = promised_places(world.view())
    assert (place.pod, place.node, place.shape) == (ADA, "a", two.id)
    assert sorted(place.claims) == sorted(kept.claims)
    assert placement(world, PLAIN).kind is PlacementKind.SCALE_UP
    names = dict(zip(("gpu", "more"), (each.name for each in kept.claims), strict=True))
    world.user("ada", claim_names=names, cpu="6")
    world.settle()
    assert world.where("ada") == "a"
    assert sorted(each.claim for each in world.actions(ReleaseClaim)) == sorted(kept.claims)


def test_one_claim_that_is_not_held_keeps_the_placeholder() -> None:
    """An answer of the API server was lost: that claim becomes the pod's before the placeholder goes."""
    two = user_shape({"gpu": gpu_claim(), "more": gpu_claim()}, cpu="6")
    world = hub((two, 1, 1))
    world.node("a", cpu="10", gpus=2)
    world.settle()
    (kept,) = world.view().placeholders.values()
    for each in kept.claims:
        world.reserve(each, "ada", world.now + timedelta(seconds=30))
    world.hold(kept.claims[0], "ada")
    names = dict(zip(("gpu", "more"), (each.name for each in kept.claims), strict=True))
    world.user("ada", claim_names=names, cpu="6")
    world.pass_time(seconds=16)
    world.decide()
    reserved = {each.claim for each in world.actions(ReserveClaim)}
    assert kept.claims[1] in reserved
    assert kept.key not in world.snapshot.pods


@pytest.mark.parametrize("why", ["over", "deleted"])
def test_devices_are_not_taken_from_a_pod_that_is_not_seen_yet(why: str) -> None:
    """What is known of pods may be older than what is known of claims."""
    world = full_node()
    _, claim = promised(world)
    tracked = world.snapshot.claims[claim]
    unseen = ConsumerReference("pods", "ada", "uid-unseen")
    world.snapshot.put(replace(tracked.with_consumers((*tracked.consumers, unseen)), is_deleted=why == "deleted"))
    if why == "over":
        world.pass_time(seconds=31)
    world.decide()
    assert [each.consumers for each in world.actions(ReleaseClaim)] == [None]
    assert world.snapshot.claims[claim].consumers == (unseen,)
    assert world.snapshot.claims[claim].claim.is_allocated


def test_a_pod_that_is_a_consumer_already_may_go_elsewhere_too() -> None:
    """Its bind has failed, say. The scheduler gives up what a pod has all to itself."""
    world = full_node()
    claim = room_is_taken(world)
    ada = world.snapshot.pods[ADA]
    world.snapshot.reserve(claim, ada)
    world.refused["ada"] = "0/1 nodes are available: 1 Insufficient cpu."
    world.decide()
    assert [(each.claim, each.consumers) for each in world.actions(ReleaseClaim)] == [(claim, None)]
    assert [each.uid for each in world.snapshot.claims[claim].consumers] == [ada.uid]


@pytest.mark.parametrize("is_node_of_old_pod", [False, True])
def test_an_older_pod_of_that_name_is_another(is_node_of_old_pod: bool) -> None:
    """A server that was stopped a moment ago, and starts anew."""
    world = full_node()
    world.user("ada", cpu="1")
    if is_node_of_old_pod:
        world.schedule()
    world.pass_time(minutes=1)
    promised(world)
    assert places(world) == [(ADA, "a", BIG.id)]


def test_two_pods_that_name_what_is_held_stop_nothing() -> None:
    world = full_node()
    world.user("eve", cpu="6")
    world.refused["eve"] = "it comes later"
    claim = world.promise(placement(world, BIG), "ada")
    world.user("ada", claim_names={"gpu": claim}, cpu="6")
    world.user("bob", claim_names={"gpu": claim}, cpu="6")
    decided = world.decide()
    assert {each.pod.name for each in decided.waiting} == {"ada", "bob", "eve"}
