"""What is promised to a server whose pod comes without it: the answer came too late, or the claim could not be written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder, LabelPod
from dra_spawner.placeholders.planner.placement import PlacementKind, find_placement
from dra_spawner.placeholders.planner.view import Placeholder, Reservation
from dra_spawner.simulator.claims import ObjectKey
from tests.placeholders.planner.device_hub import hub
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.world import World

HALF_A_MINUTE = timedelta(seconds=30)


def hub_with(*nodes: str, kept: int = 1) -> World:
    """Nodes with a device each."""
    world = hub((GPU, kept, 5))
    for name in nodes:
        world.node(name, gpus=1)
    world.settle()
    world.run(minutes=0.5)
    return world


def reserved(world: World, pod: str = "ada") -> Placeholder:
    """A placeholder whose claim is promised to a pod."""
    placeholder = sorted(world.view().warm(GPU.id), key=lambda each: each.key)[0]
    world.reserve(placeholder.claims[0], pod, world.now + HALF_A_MINUTE)
    return placeholder


def causes(world: World) -> list[Cause]:
    return [each.cause for each in world.actions(DeletePlaceholder)]


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "in memory"])
def test_the_server_has_its_place_at_once(is_written: bool) -> None:
    world = hub_with("a")
    if is_written:
        kept = reserved(world)
    else:
        (kept,) = world.view().warm(GPU.id)
        world.reserved[kept.key] = Reservation("ada", world.now + HALF_A_MINUTE, world.now)
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    decided = world.decide()
    assert decided.pending[0].reason == f"{kept.pod} preempted for it on node a"
    world.schedule()
    assert world.where("ada") == "a"
    assert causes(world) == [Cause.PREEMPTED]
    assert not any(each.for_pending_pod for each in world.actions(CreatePlaceholder)), "no node is asked for"
    left = world.snapshot.claims.get(kept.claims[0])
    assert left is None or not left.claim.is_allocated


def test_what_it_was_promised_goes_before_anything_else() -> None:
    world = hub_with("a", "b", kept=2)
    kept = reserved(world)
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert [(each.key, each.cause) for each in world.actions(DeletePlaceholder)] == [(kept.key, Cause.PREEMPTED)]


def test_it_is_given_up_if_there_is_room_elsewhere() -> None:
    """Nobody else may have it, so it keeps a device for nobody."""
    world = hub_with("a")
    kept = reserved(world)
    world.node("b", gpus=2)  # another is kept there meanwhile
    world.run(minutes=0.1)
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert [(each.key, each.cause) for each in world.actions(DeletePlaceholder)] == [(kept.key, Cause.EXPIRED)]
    assert not world.actions(LabelPod)
    assert len(world.view().warm(GPU.id)) == 1


def test_nobody_else_is_ever_promised_it() -> None:
    world = hub_with("a")
    reserved(world)
    world.user("ada", {"gpu": gpu_claim()})
    assert find_placement(world.view(), world.policy, GPU, NAMESPACE).kind is not PlacementKind.WARM


def test_another_may_take_its_device() -> None:
    """The pod that forsook it is on another node by now."""
    world = hub_with("a", kept=1)
    reserved(world)
    world.node("b", gpus=1)
    world.schedule()
    world.user("ada", {"gpu": gpu_claim()})
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert {world.where("ada"), world.where("bob")} == {"a", "b"}


@pytest.mark.parametrize("before", [1, 10])
def test_an_older_pod_of_that_name_does_not_forsake_it(before: float) -> None:
    """KubeSpawner deletes it when the new one cannot be made; that one names the claim."""
    world = hub_with("a")
    world.user("ada", nodeName="a")
    world.pass_time(seconds=before)
    kept = reserved(world)
    world.run(minutes=0.4)
    assert not causes(world)
    world.leave("ada")
    world.user("ada", claim_names={"gpu": kept.claims[0].name})
    world.settle()
    assert world.where("ada") == "a"
    assert causes(world) == [Cause.HANDED_OVER]


def test_a_promise_of_which_it_is_not_known_when_it_was_given_lasts() -> None:
    world = hub_with("a")
    kept = reserved(world)
    world.relabel("ResourceClaim", kept.claims[0], {names.RESERVED_SINCE: None})
    world.user("ada", {"gpu": gpu_claim()})
    world.run(minutes=0.4)
    assert not causes(world)


def test_a_place_without_devices_is_taken_by_preemption() -> None:
    """No pod ever names it."""
    world = hub((PLAIN, 1, 5))
    world.node("a")
    world.settle()
    (kept,) = world.view().warm(PLAIN.id)
    world.reserved[kept.key] = Reservation("ada", world.now + HALF_A_MINUTE, world.now)
    world.user("ada")
    world.run(minutes=0.4)
    assert kept.key in world.view().placeholders
    assert world.where("ada") == "a"
    assert ObjectKey(NAMESPACE, "ada") in world.view().users
