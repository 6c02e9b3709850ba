"""In any storm of failures few placeholders are deleted and created, and users' placeholders are replaced quickly."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, Hold
from dra_spawner.placeholders.planner.targets.policy import Policy, Renewal, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

OTHER = user_shape(cpu="900m")


def policy(world: World, shape: Shape, replicas: ReplicaRange) -> Policy:
    return replace(world.policy, shapes={shape.id: shape}, replicas={shape.id: replicas})


def test_placeholders_that_fail_at_once_are_recreated_later_and_later() -> None:
    world = hub((PLAIN, 5, 10))
    world.policy = replace(world.policy, renewal=Renewal(max_failed=1_000))
    world.node("a")
    world.run(1 / 3, every_seconds=0.2, each_round=world.fail_placeholders)
    assert world.made <= 5 + 2, "at the start, and then one after 5 seconds and one after 10 more"
    world.run(20, every_seconds=1, each_round=world.fail_placeholders)
    assert world.made <= 5 + 9, "one after 20, 40, 80, 160 and then each 300 seconds"
    assert len(world.ended(Cause.BROKEN)) <= world.made
    (loss,) = world.last.planner_state.creations.lost.of_shape.values()
    assert (loss.count, loss.delay) == (5, timedelta(minutes=5))
    problem = f"5 placeholders of plain failed; replacements come from {loss.until:%H:%M:%S} UTC on"
    assert world.last.planner_state.creations.problems(world.now, {PLAIN.id: "plain"}.__getitem__) == (problem,)
    # The nodes work again.
    world.run(minutes=5, every_seconds=5)
    assert len(world.warm(PLAIN)) == 5
    world.run(minutes=6, every_seconds=5)
    world.fail_placeholders()
    world.settle()
    world.run(minutes=0.2, every_seconds=1)
    assert len(world.warm(PLAIN)) == 5, "the next time it begins with 5 seconds again"


def test_handed_over_placeholders_are_replaced_at_once_while_others_fail() -> None:
    world = hub((GPU, 3, 5), nodes="a", gpus=10)
    failed = next(iter(world.view().placeholders))
    for number in range(3):
        world.fail(failed)
        world.decide()
        handed_over = world.warm(GPU)[0]
        world.user(f"user-{number}", claim_names={"gpu": handed_over.claims[0].name})
        world.schedule()
        before = world.made
        world.pass_time(seconds=4)
        world.decide()
        world.decide()
        world.schedule()
        assert handed_over.key not in world.view().placeholders
        assert world.made >= before + 1
        failed = next(iter(world.view().placeholders))


@pytest.mark.parametrize("count", [20, 400])
def test_all_wanted_placeholders_are_created_at_once_at_the_start(count: int) -> None:
    world = hub((PLAIN, count, count))
    world.decide()
    assert world.made == count


def test_hundred_handovers_at_once_are_refilled_at_once_again_and_again() -> None:
    world = hub((GPU, 100, 100))
    for number in range(7):
        world.node(f"node-{number}", cpu="100", gpus=100)
    world.settle()
    for turn in range(3):
        for number, each in enumerate(world.warm(GPU)):
            world.user(f"user-{turn}-{number}", claim_names={"gpu": each.claims[0].name})
        world.schedule()
        world.pass_time(seconds=6)
        world.decide()
        world.decide()
        world.schedule()
        assert len(world.warm(GPU)) == 100, turn


def test_repeated_deletions_of_all_placeholders_do_not_make_the_service_busy() -> None:
    world = hub((PLAIN, 20, 20))
    world.node("a", cpu="100")
    for _ in range(1000):
        world.schedule()
        world.decide()
        for key in world.view().placeholders:
            world.remove_pod(key)
        world.pass_time(seconds=0.1)
    assert world.made <= 20 + 10
    world.run(minutes=4, every_seconds=1)
    assert len(world.warm(PLAIN)) == 20
    assert not world.last.planner_state.creations.problems(world.now, str)


def test_a_policy_that_changes_all_the_time_evicts_no_more_than_the_budget_allows() -> None:
    world = hub((PLAIN, 50, 50))
    for number in range(6):
        world.node(f"node-{number}")
    world.settle()
    begun, policies = world.now, (policy(world, OTHER, ReplicaRange(50, 50)), world.policy)
    for number in range(40):
        world.policy = policies[number % 2]
        world.schedule()
        world.decide()
        world.schedule()
        world.pass_time(seconds=0.5)
        # No placeholder ends for another reason here.
        assert len(world.actions(DeletePlaceholder)) <= 5 + (world.now - begun).total_seconds()


def test_replacements_are_warm_before_outdated_placeholders_are_deleted() -> None:
    """An administrator changes a profile's memory: the wanted number of placeholders is warm at any time."""
    world = hub((PLAIN, 5, 5), nodes="a", cpu="20")
    world.policy = policy(world, OTHER, ReplicaRange(5, 5))
    for number in range(30):
        world.decide()
        world.decide()  # before the scheduler places the new placeholders
        assert sum(not each.is_pending for each in world.view().placeholders.values()) >= 5
        if number == 0:
            assert set(world.last.denied.values()) == {Hold.REPLACING}
        world.schedule()
        world.pass_time(seconds=1)
    assert {each.shape for each in world.view().placeholders.values()} == {OTHER.id}


def test_on_a_full_node_outdated_placeholders_are_deleted_for_replacements() -> None:
    world = hub((GPU, 4, 4), nodes="a", gpus=4)
    other = user_shape({"gpu": gpu_claim()}, cpu="900m")
    world.policy = policy(world, other, ReplicaRange(4, 4))
    for number in range(12):
        world.schedule()
        world.decide()
        world.schedule()
        assert number < 2 or any(not each.is_pending for each in world.view().placeholders.values())
        world.pass_time(seconds=1)
    assert [each.shape for each in world.warm(other)] == [other.id] * 4
    assert world.count == 4


def test_outdated_placeholders_are_deleted_after_a_minute_without_replacements() -> None:
    world = hub((PLAIN, 2, 2), nodes="a", cpu="3")
    large = user_shape(cpu="50")
    world.policy = policy(world, large, ReplicaRange(1, 1))
    world.run(minutes=0.9)
    assert world.number(PLAIN) == 2
    world.run(minutes=0.4)
    assert PLAIN.id not in world.view().placeholders_of_shape
