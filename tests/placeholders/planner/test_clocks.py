"""Decisions when the clock is set, or when the service does not know everything."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.targets.policy import Budget, Policy
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.objects import GPU, NAMESPACE, PLAIN, gpu_claim
from tests.placeholders.planner.world import World, hub


def gpu_world(gpus: int = 2) -> World:
    return hub((GPU, 1, 2), nodes="a", gpus=gpus)


def test_a_reservation_from_the_future_ends() -> None:
    """The reservation is older than a change of the clock; no other server gets the claim."""
    world = gpu_world()
    (placeholder,) = world.warm(GPU)
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(hours=1))
    world.settle()
    assert [each.key for each in world.ended(Cause.EXPIRED)] == [placeholder.key]
    (other,) = world.warm(GPU)
    assert other.claims != placeholder.claims


def test_a_reservation_of_a_leader_with_a_slightly_wrong_clock_lasts() -> None:
    world = gpu_world()
    (placeholder,) = world.warm(GPU)
    world.reserve(placeholder.claims[0], "ada", world.now + timedelta(minutes=2))
    world.settle()
    assert placeholder.key in world.view().placeholders


def test_a_node_becomes_ready_although_the_clock_was_set_back() -> None:
    world = hub((PLAIN, 1, 2), nodes="a")
    world.pull("a", images=())
    world.settle()
    assert not world.is_ready("a")
    world.now -= timedelta(hours=2)
    world.pull("a")
    world.run(minutes=2)
    assert world.is_ready("a")


def test_placeholders_are_preempted_again_when_the_clock_was_set_back() -> None:
    world = gpu_world(1)
    world.user("ada", {"gpu": gpu_claim()})
    key = ObjectKey(NAMESPACE, "ada")
    world.relabel("Pod", key, {names.PREEMPTED_AT: str(int((world.now + timedelta(hours=1)).timestamp()))})
    world.settle()
    assert world.node_of("ada") == "a"


def test_without_all_shapes_placeholders_of_others_stay() -> None:
    world = gpu_world()
    before = set(world.view().placeholders)
    world.policy = Policy(is_complete=False)
    world.log.clear()
    world.settle()
    assert world.log == []
    assert set(world.view().placeholders) == before
    world.policy = Policy()
    world.settle()
    assert not world.view().placeholders
    assert {each.cause for each in world.ended()} == {Cause.OUTDATED}


def test_claims_are_not_handed_over_to_another_namespace() -> None:
    world = gpu_world(1)
    assert world.placement(GPU).state is AvailabilityState.READY
    assert find_placement(world.view(), world.policy, GPU, "user-ada").state is AvailabilityState.AFTER_PREEMPTION


def test_the_reason_why_a_placeholder_stays_is_reported() -> None:
    budget = Budget(per_second=0.0, burst=1)
    world = hub((PLAIN, 4, 8), policy={"budget": budget})
    world.node("a")
    world.settle()
    world.users(6)
    world.settle()
    world.node("b")
    denied = set()
    for _ in range(30):
        denied |= set(world.decide().denied.values())
        world.schedule()
        world.pass_time(seconds=1)
    assert Hold.BUDGET in denied
    assert not [each for each in world.actions(DeletePlaceholder) if each.cause.is_eviction]


def test_the_charts_own_placeholders_do_not_make_a_node_busy() -> None:
    world = World(Policy(shapes={PLAIN.id: PLAIN}, replicas={}))
    world.node("a")
    world.node("b")
    chart = {
        "kind": "Pod",
        "metadata": {
            "name": "user-placeholder-0",
            "namespace": NAMESPACE,
            "uid": "c",
            "labels": {"component": "user-placeholder"},
        },
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "p", "resources": {"requests": {"cpu": "5"}}}]},
    }
    world.apply(chart)
    world.user("ada", nodeName="b")
    world.settle()
    found = world.placement(PLAIN)
    assert (found.state, found.node) == (AvailabilityState.FREE, "b")
