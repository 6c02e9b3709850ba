"""Shapes without further placeholders: their placeholders keep failing, or get no node."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

from dra_spawner.placeholders.planner.round import DenialCause
from dra_spawner.placeholders.planner.targets.policy import Renewal
from tests.placeholders.planner.objects import GPU, PLAIN, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

MESSAGE = "1 max node group size reached"


def capped_hub() -> World:
    world = hub((PLAIN, 2, 9))
    world.node("a", "40")
    world.run(30, every_seconds=3, each_round=world.fail_placeholders)
    return world


def test_after_five_failed_replacements_no_more_are_created() -> None:
    world = capped_hub()
    assert world.made == 2 + 5, "the first ones, and then one after the other"
    denial = world.last.limited[PLAIN.id]
    assert (denial.cause, denial.wanted, denial.allowed) == (DenialCause.FAILURES, 2, 0)
    assert denial.sentence("plain") == (
        "Placeholders of plain: 2 are wanted, 0 are allowed as 5 replacements in a row have failed, too; no more are "
        "created until an operator says: try again."
    )
    # The nodes work again, but no operator has resumed the shape.
    world.run(minutes=120, every_seconds=30)
    assert world.made == 7
    world.planner_state = world.planner_state.resumed(PLAIN.id)
    world.run(minutes=1)
    assert len(world.warm(PLAIN)) == 2
    assert not world.last.limited


def test_the_setting_says_after_how_many() -> None:
    world = hub((PLAIN, 2, 9))
    world.policy = replace(world.policy, renewal=Renewal(max_failed=2))
    world.node("a", "40")
    world.run(10, every_seconds=1, each_round=world.fail_placeholders)
    assert world.made == 2 + 2


def test_a_restart_and_a_changed_definition_resume() -> None:
    world = capped_hub()
    world.restart()
    world.run(minutes=1)
    assert len(world.warm(PLAIN)) == 2
    world = capped_hub()
    other = user_shape(cpu="900m")
    replicas = {other.id: world.policy.replicas[PLAIN.id]}
    world.policy = replace(world.policy, shapes={other.id: other}, replicas=replicas)
    world.run(minutes=1)
    assert len(world.warm(other)) == 2


def test_users_come_first() -> None:
    """A pending server has its placeholder. A placeholder that runs shows that the nodes work."""
    world = hub((GPU, 2, 9))
    world.node("a", gpus=2)
    world.run(30, every_seconds=3, each_round=world.fail_placeholders)
    before = world.made
    world.users(("ada", "bob", "cy"), {"gpu": gpu_claim()})
    world.settle()
    assert world.made == before + 1
    (pending,) = world.pending_placeholders
    assert pending.shape == GPU.id
    world.node("b", gpus=1)
    world.node("c", gpus=4)
    world.run(minutes=3)
    assert not world.pending
    assert len(world.warm(GPU)) == 2


def test_a_working_placeholder_ends_the_row() -> None:
    """Each third placeholder runs for half a minute: creations come later and later, and go on."""
    world = hub((PLAIN, 1, 9))
    world.policy = replace(world.policy, renewal=Renewal(max_failed=4))
    world.node("a")
    begun: dict[str, datetime] = {}

    def fail_most() -> None:
        for pod in list(world.snapshot.pods.values()):
            since = begun.setdefault(pod.name, world.now)
            works = int(pod.name.rpartition("-")[2]) % 3 == 0 and world.now - since < timedelta(seconds=30)
            if pod.node_name and not pod.is_finished and not works:
                world.snapshot.put(replace(pod, phase="Failed"))

    world.run(60, every_seconds=3, each_round=fail_most)
    assert PLAIN.id not in world.last.limited
    assert world.made > 10


# --- the autoscaler's maximum ----------------------------------------------------------------------------------------


def refuse(world: World) -> None:
    """The autoscaler adds no node for any pod."""
    world.no_node = {pod.uid: MESSAGE for pod in world.pending_pods()}


def run_refused(world: World, minutes: float, every_seconds: float = 1) -> None:
    world.run(minutes, every_seconds, lambda: refuse(world))


def test_at_the_autoscalers_maximum_no_more_are_created() -> None:
    world = hub((GPU, 3, 20))
    world.node("a", gpus=1)
    run_refused(world, 1)
    assert world.count == 3, "all at once, before the autoscaler reported anything"
    # The target rises, for example before a class.
    world.policy = replace(world.policy, replicas={GPU.id: replace(world.policy.replicas[GPU.id], min=10)})
    run_refused(world, 60, every_seconds=10)
    assert world.count == 3
    denial = world.last.limited[GPU.id]
    assert (denial.cause, denial.wanted, denial.allowed) == (DenialCause.AUTOSCALER, 10, 3)
    assert denial.because.startswith("as the autoscaler adds no node (since 09:0")
    assert denial.because.endswith(MESSAGE)
    # The administrator raises the maximum.
    world.no_node = {}
    for name in "bc":
        world.node(name, gpus=20)
    world.run(minutes=3)
    assert len(world.warm(GPU)) == 10
    assert not world.last.limited


def test_creation_is_retried_at_longer_and_longer_intervals() -> None:
    """Deleted pending placeholders are created again, and refused again."""
    world = hub((GPU, 1, 20))
    tries: list[float] = []

    def delete() -> None:
        for key, each in list(world.view().placeholders.items()):
            if each.pod.uid in world.no_node:  # pending since the previous round
                world.remove_pod(key)
                tries.append(world.now.timestamp())
        refuse(world)

    world.run(180, every_seconds=1, each_round=delete)
    waits = [round((after - before) / 60) for before, after in pairwise(tries)]
    assert waits[:6] == [1, 2, 4, 8, 16, 30]
    assert set(waits[6:]) == {30}


def test_an_administrator_resumes_at_once() -> None:
    world = hub((GPU, 2, 20))
    run_refused(world, 0.5)
    for key in list(world.view().placeholders):
        world.remove_pod(key)
    world.no_node = {}
    world.decide()
    assert not world.view().placeholders
    world.planner_state = world.planner_state.resumed(GPU.id)
    world.decide()
    assert world.count == 2


def test_users_have_their_placeholders_all_the_same() -> None:
    world = hub((GPU, 1, 20))
    run_refused(world, 1)
    world.users(("ada", "bob", "cy"), {"gpu": gpu_claim()})
    run_refused(world, 1)
    assert world.count == 3


def test_a_clock_that_is_set_back() -> None:
    world = hub((GPU, 2, 20))
    run_refused(world, 1)
    (cap,) = world.planner_state.scale_up_caps.of_shape.values()
    world.now -= timedelta(hours=5)
    world.decide()
    (after,) = world.planner_state.scale_up_caps.of_shape.values()
    assert after.until <= world.now + cap.delay
