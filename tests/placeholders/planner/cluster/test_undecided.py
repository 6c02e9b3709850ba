"""Whether a pod fits is unknown if its devices have no verdict: no action is done for it, and no answer misleads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_spawner.dra.allocation.search import Search
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.cluster.undecided import Unknown
from dra_spawner.placeholders.planner.round import PendingUser
from dra_spawner.simulator.devices import class_verdicts
from tests.placeholders.planner.objects import GPU, Json, gpu_claim, user_shape
from tests.placeholders.planner.world import World, hub

#: Kubernetes has a verdict on this expression; here it exceeds the limit of one evaluation.
EXPENSIVE = 'lists.range(9000).all(i, "%.255f".format([1e300]) != "")'
CLASS = "expensive.example.com"


def selecting(expression: str) -> list[Json]:
    return [{"cel": {"expression": expression}}]


def world_with(gpus: int = 1, placeholders: int = 0) -> World:
    """A node with GPUs, some of which placeholders hold, and a class whose selector has no verdict."""
    world = hub((GPU, placeholders, 5))
    spec = {"selectors": selecting(EXPENSIVE)}
    world.snapshot.apply({"kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec})
    world.node("a", gpus=gpus)
    world.settle()
    assert world.placeholders_on("a") == placeholders
    return world


def decided(world: World, **pod: Any) -> PendingUser:
    world.user("ada", {"gpu": gpu_claim(deviceClassName=CLASS)}, **pod)
    world.decide()
    return next(each for each in world.last.pending if each.pod.name == "ada")


def full_of_others(world: World) -> None:
    """Only CPU keeps the pod from the node, and a placeholder has it."""
    world.user("bob", cpu="9")
    world.schedule()
    assert world.node_of("bob") == "a"


def not_ready(world: World) -> None:
    world.node("a", gpus=1, images=())
    world.decide()
    assert not world.is_ready("a")


@pytest.mark.parametrize(
    ("gpus", "placeholders", "change"),
    [
        pytest.param(1, 0, lambda _: None, id="a device is free"),
        pytest.param(1, 1, lambda _: None, id="a placeholder has the device"),
        pytest.param(2, 1, full_of_others, id="a placeholder has the CPU"),
        pytest.param(1, 0, not_ready, id="the node is not ready for users"),
    ],
)
def test_without_a_verdict_on_devices_nothing_is_said_or_done(
    gpus: int, placeholders: int, change: Callable[[World], None]
) -> None:
    world = world_with(gpus, placeholders)
    change(world)
    created = world.made
    pending = decided(world)
    assert pending.unknown is Unknown.NO_VERDICT
    assert pending.reason.startswith("it is not known whether it fits")
    assert f"class {CLASS}" in pending.reason
    assert "evaluating it takes more than" in pending.reason
    assert (pending.needs_node, pending.has_preemption) == (False, False)
    assert world.made == created
    assert not world.ended(Cause.PREEMPTED)


def test_a_verdict_exists_where_the_devices_do_not_matter() -> None:
    pending = decided(world_with(), nodeSelector={"zone": "elsewhere"})
    assert (pending.unknown, pending.needs_node) == (None, True)


def test_equal_pods_get_the_same_answer() -> None:
    world = world_with()
    world.users(("bob", "cy"), {"gpu": gpu_claim(deviceClassName=CLASS)})
    world.decide()
    assert [each.unknown for each in world.last.pending] == [Unknown.NO_VERDICT] * 2


def test_other_pods_are_served_meanwhile() -> None:
    world = world_with(gpus=2, placeholders=1)
    world.user("bob", {"gpu": gpu_claim()})
    decided(world)
    world.schedule()
    assert world.node_of("bob") == "a"
    assert world.placement(GPU).state is AvailabilityState.READY


def test_a_pod_with_more_conditions_than_are_looked_at_is_undecided() -> None:
    world = hub((GPU, 0, 5))
    world.node("a")
    term = {"matchExpressions": [{"key": "no", "operator": "In", "values": ["body"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 3000}}
    world.user("eve", affinity={"nodeAffinity": required})
    world.decide()
    (pending,) = world.last.pending
    assert (pending.unknown, pending.needs_node) == (Unknown.NO_VERDICT, False)
    assert "it is not known where the pod may run" in pending.reason


def test_an_undecided_server_is_not_refused_for_ever() -> None:
    """A server whose own selector cannot be evaluated here is not refused: kube-scheduler evaluates it."""
    world = world_with()
    world.policy = replace(world.policy, node_kinds_complete=True)
    nobody, unknown = (
        user_shape({"gpu": gpu_claim(selectors=selecting(each))}) for each in ("device.driver == 'no'", EXPENSIVE)
    )
    assert world.placement(nobody).state is AvailabilityState.NEVER
    assert world.placement(unknown).state is AvailabilityState.WAITS


def test_one_node_suffices_to_answer_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further node would delay the service for a tenth of a second, in each request for a placement."""
    searches: list[Search] = []

    class CountedSearch(Search):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            searches.append(self)

    monkeypatch.setattr(class_verdicts, "Search", CountedSearch)
    wanted = user_shape({"gpu": gpu_claim(deviceClassName=CLASS)})
    counts = []
    for nodes in (2, 20):
        world = world_with()
        for number in range(1, nodes):
            world.node(f"n{number}", gpus=1)
        world.settle()
        searches.clear()
        assert world.placement(wanted).state is AvailabilityState.WAITS
        counts.append(len(searches))
    assert counts[0] == counts[1]
