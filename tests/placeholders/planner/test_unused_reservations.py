"""A pod comes without its reserved claim: the answer came too late, or the claim could not be written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, DeletePlaceholder, LabelPod
from dra_spawner.placeholders.planner.cluster.view import Placeholder, Reservation
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.world import World, hub

HALF_A_MINUTE = timedelta(seconds=30)


def hub_with(*nodes: str, count: int = 1) -> World:
    """Nodes with a device each."""
    world = hub((GPU, count, 5))
    for name in nodes:
        world.node(name, gpus=1)
    world.settle()
    world.run(minutes=0.5)
    return world


def reserved(world: World, pod: str = "ada") -> Placeholder:
    """A placeholder whose claim is reserved for a pod."""
    placeholder = sorted(world.warm(GPU), key=lambda each: each.key)[0]
    world.reserve(placeholder.claims[0], pod, world.now + HALF_A_MINUTE)
    return placeholder


def causes(world: World) -> list[Cause]:
    return [each.cause for each in world.actions(DeletePlaceholder)]


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "in memory"])
def test_the_server_gets_the_device_at_once(is_written: bool) -> None:
    world = hub_with("a")
    if is_written:
        placeholder = reserved(world)
    else:
        (placeholder,) = world.warm(GPU)
        world.reserved[placeholder.key] = Reservation("ada", world.now + HALF_A_MINUTE, world.now)
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    decided = world.decide()
    assert decided.pending[0].reason == f"{placeholder.pod} preempted for it on node a"
    world.schedule()
    assert world.node_of("ada") == "a"
    assert causes(world) == [Cause.PREEMPTED]
    assert not any(each.for_pending_pod for each in world.actions(CreatePlaceholder)), "no node is asked for"
    left = world.snapshot.claims.get(placeholder.claims[0])
    assert left is None or not left.claim.is_allocated


def test_the_reserved_placeholder_is_preempted_first() -> None:
    world = hub_with("a", "b", count=2)
    placeholder = reserved(world)
    world.user("ada", {"gpu": gpu_claim()})
    world.schedule()
    world.decide()
    assert [(each.key, each.cause) for each in world.actions(DeletePlaceholder)] == [(placeholder.key, Cause.PREEMPTED)]


def test_a_reservation_is_released_if_the_pod_fits_elsewhere() -> None:
    """No other server may have the claim, so its device would stay unused."""
    world = hub_with("a")
    placeholder = reserved(world)
    world.node("b", gpus=2)  # meanwhile another placeholder is created on it
    world.run(minutes=0.1)
    world.user("ada", {"gpu": gpu_claim()})
    world.settle()
    assert [(each.key, each.cause) for each in world.actions(DeletePlaceholder)] == [(placeholder.key, Cause.EXPIRED)]
    assert not world.actions(LabelPod)
    assert len(world.warm(GPU)) == 1


def test_an_unused_claim_is_reserved_for_no_other_server() -> None:
    world = hub_with("a")
    reserved(world)
    world.user("ada", {"gpu": gpu_claim()})
    assert world.placement(GPU).state is not AvailabilityState.READY


def test_another_server_may_get_the_device() -> None:
    """The pod that did not use its reservation is on another node by now."""
    world = hub_with("a", count=1)
    reserved(world)
    world.node("b", gpus=1)
    world.schedule()
    world.user("ada", {"gpu": gpu_claim()})
    world.user("bob", {"gpu": gpu_claim()})
    world.settle()
    assert {world.node_of("ada"), world.node_of("bob")} == {"a", "b"}


@pytest.mark.parametrize("before", [1, 10])
def test_an_older_pod_of_that_name_does_not_release_the_reservation(before: float) -> None:
    """KubeSpawner deletes the older pod if the new one cannot be created; the new pod names the claim."""
    world = hub_with("a")
    world.user("ada", nodeName="a")
    world.pass_time(seconds=before)
    placeholder = reserved(world)
    world.run(minutes=0.4)
    assert not causes(world)
    world.leave("ada")
    world.user("ada", claim_names={"gpu": placeholder.claims[0].name})
    world.settle()
    assert world.node_of("ada") == "a"
    assert causes(world) == [Cause.HANDED_OVER]


def test_a_reservation_without_a_time_lasts() -> None:
    world = hub_with("a")
    placeholder = reserved(world)
    world.relabel("ResourceClaim", placeholder.claims[0], {names.RESERVED_SINCE: None})
    world.user("ada", {"gpu": gpu_claim()})
    world.run(minutes=0.4)
    assert not causes(world)


def test_a_reserved_placeholder_without_devices_is_not_deleted() -> None:
    """The placeholder has no claim, so no pod names one."""
    world = hub((PLAIN, 1, 5), nodes="a")
    (placeholder,) = world.warm(PLAIN)
    world.reserved[placeholder.key] = Reservation("ada", world.now + HALF_A_MINUTE, world.now)
    world.user("ada")
    world.run(minutes=0.4)
    assert placeholder.key in world.view().placeholders
    assert world.node_of("ada") == "a"
    assert ObjectKey(NAMESPACE, "ada") in world.view().users
