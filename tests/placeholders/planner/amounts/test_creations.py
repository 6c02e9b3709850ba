"""Whatever ends placeholders without a decision of the service, or lets them fail: few are made, and users' ones are replaced at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pod_parts import UnhealthyDevice
from dra_spawner.simulator.model.pods import Pod
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.placeholders.planner.objects import GPU, PLAIN
from tests.placeholders.planner.world import World, hub

WANTED = 8
#: More in a minute would be more than a handful.
HANDFUL = 7
IS_LONG = example_count(100) == 100
TEN_MINUTES = "a taint, after 10 minutes"


def placeholders_of(world: World) -> list[Pod]:
    found = (pod for pod in world.snapshot.pods.values() if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER)
    return [pod for pod in found if not pod.is_finished and not pod.is_deleted]


def evicted_after(seconds: float) -> Callable[[World], None]:
    """The taint manager evicts each, once it has tolerated the taint for some seconds."""

    def evict(world: World) -> None:
        for pod in placeholders_of(world):
            if pod.node_name and age(pod.created, world.now) >= timedelta(seconds=seconds):
                world.end_pod(ObjectKey.of(pod))

    return evict


def refused_at_once(world: World) -> None:
    """A controller deletes each in the moment in which it is created, with or without a node."""
    for pod in placeholders_of(world):
        world.remove_pod(ObjectKey.of(pod))


def preempted_by_others(world: World) -> None:
    """Somebody's pods with a high priority take each place."""
    for pod in placeholders_of(world):
        if pod.node_name:
            world.end_pod(ObjectKey.of(pod))


def claims_deleted(world: World) -> None:
    for claim in list(world.snapshot.claims.values()):
        world.snapshot.remove_claim(claim.key)


def failed_after(seconds: float) -> Callable[[World], None]:
    """The kubelet ends each, once it has run for some seconds."""

    def fail(world: World) -> None:
        for pod in placeholders_of(world):
            if pod.node_name and age(pod.created, world.now) >= timedelta(seconds=seconds):
                world.fail(ObjectKey.of(pod))

    return fail


def unhealthy(world: World) -> None:
    """A driver says of each device that it is not healthy."""
    for pod in placeholders_of(world):
        if pod.node_name:
            world.snapshot.put(replace(pod, unhealthy_devices=(UnhealthyDevice("claim:gpu"),)))


CAUSES: dict[str, Callable[[World], None]] = {
    "a taint, at once": evicted_after(0),
    "a taint, after 5 s": evicted_after(5),
    "a taint, after 30 s": evicted_after(30),
    TEN_MINUTES: evicted_after(600),
    "a controller": refused_at_once,
    "preemption": preempted_by_others,
    "deleted claims": claims_deleted,
    "a kubelet, at once": failed_after(0),
    "a kubelet, after 30 s": failed_after(30),
    "unhealthy devices": unhealthy,
}


def largest_minute(world: World, since: datetime) -> int:
    made = [at for at, action in world.log if isinstance(action, CreatePlaceholder) and at >= since]
    return max((sum(begin <= at < begin + timedelta(minutes=1) for at in made) for begin in made), default=0)


@all_of_them("cause", CAUSES)
def test_few_are_made_in_each_minute(cause: Callable[[World], None]) -> None:
    for shape, grace in ((GPU, timedelta(seconds=5)), (GPU, timedelta(0)), (PLAIN, timedelta(0))):
        world = hub((shape, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
        world.grace = grace
        minutes = 30 if IS_LONG or cause is CAUSES[TEN_MINUTES] else 14
        world.run(2, every_seconds=1, each_round=lambda world=world: cause(world))  # type: ignore[misc]
        world.run(minutes - 2, every_seconds=6, each_round=lambda world=world: cause(world))  # type: ignore[misc]
        # The first loss of placeholders that were old is replaced as a whole.
        begin = next(at for at, action in world.log if isinstance(action, CreatePlaceholder))
        later = begin + timedelta(minutes=12)
        assert largest_minute(world, later) <= HANDFUL
        if cause is not CAUSES[TEN_MINUTES]:
            assert largest_minute(world, begin + timedelta(seconds=1)) <= HANDFUL + (cause is claims_deleted) * WANTED


def test_the_loss_is_a_problem_and_ends() -> None:
    world = hub((GPU, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
    world.run(0.5, every_seconds=1, each_round=lambda: evicted_after(5)(world))
    problems = world.planner_state.creations.problems(world.now, {GPU.id: "gpu"}.__getitem__)
    assert "placeholders of gpu ended, but not by this service; " in problems[0]
    world.run(3, every_seconds=1)
    assert len(world.warm(GPU)) == WANTED
    assert world.planner_state.creations.problems(world.now, {GPU.id: "gpu"}.__getitem__) == ()


def test_a_lost_node_is_replaced_after_seconds() -> None:
    """Its placeholders were there for a day."""
    world = hub((GPU, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
    world.run(60 * 24, every_seconds=600)
    world.node("b", cpu="40", gpus=20)
    world.remove_node("a")
    world.run(0.2, every_seconds=1)
    assert len(world.warm(GPU)) == WANTED


def test_a_rush_of_users_is_not_slowed() -> None:
    """kube-scheduler preempts a young placeholder for each of them, and the next ones are made at once."""
    world = hub((PLAIN, 4, 20), nodes=("a",), cpu="4")
    for number in range(12):
        if number == 4:
            world.node("b", cpu="8")
            world.node("c", cpu="40")
        world.user(f"user-{number}")
        before = world.made
        world.run(0.05, every_seconds=1)
        lost = len(world.preempted)
        assert world.made >= before
    world.run(0.1, every_seconds=1)
    assert lost >= 4
    assert world.count == 4
    assert not world.planner_state.creations.lost.of_shape


def test_a_new_leader_counts_anew() -> None:
    world = hub((GPU, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
    refused_at_once(world)
    world.decide()
    assert world.count < WANTED
    world.restart()
    world.decide()
    assert world.count == WANTED


def test_a_clock_that_is_set_back() -> None:
    world = hub((GPU, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
    refused_at_once(world)
    world.decide()
    world.now -= timedelta(hours=5)
    world.run(2, every_seconds=1)
    assert len(world.warm(GPU)) == WANTED


def test_an_operator_resumes() -> None:
    world = hub((GPU, WANTED, 20), nodes=("a",), cpu="40", gpus=20)
    refused_at_once(world)
    world.decide()
    world.planner_state = world.planner_state.resumed(GPU.id)
    world.decide()
    assert world.count == WANTED


def test_of_two_servers_the_older_one_excuses_a_loss_in_whatever_order_the_watch_shows_them() -> None:
    world = hub((PLAIN, 1, 2), nodes="a")
    for name in ("ada", "ben"):
        world.user(name)
        world.pass_time(seconds=1)
        world.view()
    ada = next(pod for pod in world.snapshot.pods.values() if pod.name == "ada")
    world.snapshot.put(replace(ada, start_time="2026-03-02T09:00:00Z"))  # put again, it comes last
    world.view()
    world.snapshot.remove_pod(ObjectKey.of(placeholders_of(world)[0]))
    world.decide()
    assert world.planner_state.creations.lost.excuses == {ada.uid}
