"""A pod whose devices cannot be told here neither fits nor does not fit: nothing is done for it, and nobody is misled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dra_spawner.dra.search import Search
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.preemption import PendingUser
from dra_spawner.placeholders.planner.undecided import Unknown
from dra_spawner.simulator import class_verdicts
from tests.placeholders.planner.device_hub import ended, hub, placement
from tests.placeholders.planner.objects import GPU, Json, gpu_claim, user_shape
from tests.placeholders.planner.world import World

#: Kubernetes has a verdict on it; here it exceeds what one evaluation may cost.
EXPENSIVE = 'lists.range(9000).all(i, "%.255f".format([1e300]) != "")'
CLASS = "expensive.example.com"


def selecting(expression: str) -> list[Json]:
    return [{"cel": {"expression": expression}}]


def world_with(gpus: int = 1, placeholders: int = 0) -> World:
    """A node with GPUs, some of which placeholders keep, and a class whose selector has no verdict."""
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
    assert world.last is not None
    return next(each for each in world.last.pending if each.pod.name == "ada")


def full_of_others(world: World) -> None:
    """Nothing but CPU keeps the pod from the node, and a placeholder has it."""
    world.user("bob", cpu="9")
    world.schedule()
    assert world.where("bob") == "a"


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
    created = len(world.actions(CreatePlaceholder))
    told = decided(world)
    assert told.unknown is Unknown.NO_VERDICT
    assert told.reason.startswith("it is not known whether it fits")
    assert f"class {CLASS}" in told.reason
    assert "evaluating it takes more than" in told.reason
    assert (told.needs_node, told.has_preemption) == (False, False)
    assert len(world.actions(CreatePlaceholder)) == created
    assert not ended(world, Cause.PREEMPTED)


def test_it_is_known_where_the_devices_do_not_matter() -> None:
    told = decided(world_with(), nodeSelector={"zone": "elsewhere"})
    assert (told.unknown, told.needs_node) == (None, True)


def test_all_that_ask_for_the_same_are_told_the_same() -> None:
    world = world_with()
    for name in ("bob", "cy"):
        world.user(name, {"gpu": gpu_claim(deviceClassName=CLASS)})
    world.decide()
    assert world.last is not None
    assert [each.unknown for each in world.last.pending] == [Unknown.NO_VERDICT] * 2


def test_others_are_served_meanwhile() -> None:
    world = world_with(gpus=2, placeholders=1)
    world.user("bob", {"gpu": gpu_claim()})
    decided(world)
    world.schedule()
    assert world.where("bob") == "a"
    assert placement(world, GPU).kind is PlacementKind.WARM


def test_a_pod_with_more_conditions_than_are_looked_at_is_undecided() -> None:
    world = hub((GPU, 0, 5))
    world.node("a")
    term = {"matchExpressions": [{"key": "no", "operator": "In", "values": ["body"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * 3000}}
    world.user("eve", affinity={"nodeAffinity": required})
    world.decide()
    assert world.last is not None
    (told,) = world.last.pending
    assert (told.unknown, told.needs_node) == (Unknown.NO_VERDICT, False)
    assert "it is not known where the pod may run" in told.reason


def test_it_is_not_said_that_no_node_will_ever_do() -> None:
    """Whose own selector cannot be evaluated here is not refused: kube-scheduler evaluates it."""
    world = world_with()
    world.policy = replace(world.policy, node_kinds_are_all=True)
    nobody, unknown = (
        user_shape({"gpu": gpu_claim(selectors=selecting(each))}) for each in ("device.driver == 'no'", EXPENSIVE)
    )
    assert placement(world, nobody).kind is PlacementKind.NEVER
    assert placement(world, unknown).kind is PlacementKind.SCALE_UP


def test_one_node_tells_that_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further one would hold the service up for a tenth of a second, whenever a server asks for its place."""
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
        assert placement(world, wanted).kind is PlacementKind.SCALE_UP
        counts.append(len(searches))
    assert counts[0] == counts[1]
