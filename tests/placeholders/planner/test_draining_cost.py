"""The search for a node that could become empty costs little, however many nodes might."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.decisions.draining import decide_draining
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.placeholder_objects import placeholder_pod
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.simulator.snapshot import Snapshot
from tests.placeholders.planner.objects import user_manifest, user_shape
from tests.placeholders.planner.world import SETTINGS, World

HALF = user_shape(cpu="5")


def full(*placeholders: int) -> World:
    """Full nodes with placeholders; the first also has a user, and fits one more placeholder or none."""
    world = World(Policy(shapes={HALF.id: HALF}, replicas={HALF.id: ReplicaRange(1, 100, floor=0)}))
    for number, count in enumerate(placeholders):
        name = f"node-{number:02}"
        world.node(name, cpu="10" if number == 0 else str(5 * count), labels={names.IMAGES_READY: names.TRUE})
        pods = [placeholder_pod(HALF, f"placeholder-{number:02}-{each}", SETTINGS) for each in range(count)]
        if number == 0:
            pods.append(user_manifest("ada", cpu="5"))
        for pod in pods:
            pod["metadata"] |= {"uid": pod["metadata"]["name"], "creationTimestamp": world.stamp()}
            pod["spec"]["nodeName"] = name
            pod["status"] = {"phase": "Running"}
            world.apply(pod)
    world.restart()
    world.now += timedelta(hours=1)
    return world


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each search for a pod's node among all nodes."""
    asked: list[str] = []
    fits: Callable[..., Any] = Snapshot.fits

    def counting(self: Snapshot, pod: Any, **kind: Any) -> Any:
        asked.append(str(pod))
        return fits(self, pod, **kind)

    monkeypatch.setattr(Snapshot, "fits", counting)
    return asked


def look(world: World) -> tuple[list[str], str]:
    """Names of marked nodes, and the node that was tried last."""
    round_ = Round(world.view(), world.policy, world.planner_state)
    actions = decide_draining(round_)
    world.planner_state = round_.state
    return [each.node for each in actions], world.planner_state.drain_last


def test_without_capacity_one_search_answers_for_all_nodes(searches: list[str]) -> None:
    world = full(1, *([2] * 30))
    assert look(world) == ([], "")
    assert len(searches) == 1
    # The search is not repeated at once, whatever changes.
    world.pass_time(seconds=4)
    assert look(world) == ([], "")
    assert len(searches) == 1
    world.pass_time(seconds=1)
    assert look(world) == ([], "")
    assert len(searches) == 2


def test_few_nodes_are_tried_at_a_time_and_all_in_the_end(searches: list[str]) -> None:
    """One more placeholder fits, and each node has two."""
    world = full(0, *([2] * 5))
    tried = []
    for _ in range(5):
        marked, last = look(world)
        assert marked == []
        tried.append(last)
        world.pass_time(seconds=5)
    assert tried == ["node-03", "node-01", "node-04", "node-02", "node-05"]
    assert len(searches) == 5 * (1 + 3 * 2)


def test_a_node_that_can_become_empty_is_found_in_time() -> None:
    world = full(0, *([2] * 10), 1)
    for _ in range(5):
        marked, _ = look(world)
        if marked:
            break
        world.pass_time(seconds=5)
    assert marked == ["node-11"]


def test_a_clock_that_was_set_back_does_not_end_the_search() -> None:
    world = full(0, 1)
    world.planner_state = replace(world.planner_state, drain_tried=world.now + timedelta(days=1))
    assert look(world)[0] == ["node-01"]
