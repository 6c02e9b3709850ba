"""What the API server refuses is not asked again at once, and is told as long as it is wanted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dra_spawner.kube.errors import KubernetesError, RequestTarget
from dra_spawner.placeholders.controller.refusals import Refusals
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode

LABEL = LabelNode("a", "label", "true", "because")
OTHER = LabelNode("b", "label", "true", "because")


def refusal(status: int = 403, message: str = "no") -> KubernetesError:
    reason = {403: "Forbidden", 409: "Conflict", 503: "ServiceUnavailable"}[status]
    return KubernetesError(RequestTarget("patch", "nodes", name="a"), status=status, reason=reason, message=message)


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.refusals = Refusals(5, 300, clock=lambda: self.now)


def test_tries_come_at_longer_and_longer_intervals() -> None:
    world = World()
    tries = []
    while world.now < 2000:
        if world.refusals.without((LABEL,)):
            tries.append(world.now)
            world.refusals.note(LABEL, refusal())
        world.now += 1
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[:7] == [5, 10, 20, 40, 80, 160, 300]
    assert set(gaps[7:]) == {300}


def test_others_are_not_held_up() -> None:
    world = World()
    world.refusals.note(LABEL, refusal())
    assert world.refusals.without((LABEL, OTHER)) == (OTHER,)


def test_another_reason_makes_it_no_other_action() -> None:
    world = World()
    world.refusals.note(CreatePlaceholder("s", "1 wanted"), refusal())
    assert world.refusals.without((CreatePlaceholder("s", "2 wanted"),)) == ()


def test_what_works_or_is_not_wanted_any_more_is_forgotten() -> None:
    world = World()
    world.refusals.note(LABEL, refusal())
    world.refusals.note(OTHER, refusal(message="nor this"))
    assert world.refusals.problems() == (
        "patch nodes 'a': 403 Forbidden: no",
        "patch nodes 'a': 403 Forbidden: nor this",
    )
    world.refusals.forget(LABEL)
    assert len(world.refusals.problems()) == 1
    world.refusals.without(())
    assert world.refusals.problems() == ()


@pytest.mark.parametrize("status", [409, 503])
def test_what_may_work_at_any_time_is_tried_at_once(status: int) -> None:
    world = World()
    assert world.refusals.note(LABEL, refusal(status)) == ""
    assert world.refusals.without((LABEL,)) == (LABEL,)
