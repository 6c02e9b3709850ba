"""What the API server refuses is not asked again at once, and is told as long as it is wanted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from dra_spawner.kube.api_errors import KubernetesError, RequestTarget
from dra_spawner.placeholders.controller.backoff import Backoff
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode, ReservePlaceholder
from dra_spawner.simulator.claims import ObjectKey

LABEL = LabelNode("a", "label", "true", "because")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
OTHER = LabelNode("b", "label", "true", "because")


def refusal(status: int = 403, message: str = "no") -> KubernetesError:
    reason = {403: "Forbidden", 409: "Conflict", 503: "ServiceUnavailable"}[status]
    return KubernetesError(RequestTarget("patch", "nodes", name="a"), status=status, reason=reason, message=message)


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.backoff = Backoff(5, 300, 10, clock=lambda: self.now)


def test_tries_come_at_longer_and_longer_intervals() -> None:
    world = World()
    tries = []
    while world.now < 2000:
        if world.backoff.allowed((LABEL,)):
            tries.append(world.now)
            world.backoff.failed(LABEL, refusal())
        world.now += 1
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[:7] == [5, 10, 20, 40, 80, 160, 300]
    assert set(gaps[7:]) == {300}


def test_others_are_not_held_up() -> None:
    world = World()
    world.backoff.failed(LABEL, refusal())
    assert world.backoff.allowed((LABEL, OTHER)) == (OTHER,)


def test_another_reason_makes_it_no_other_action() -> None:
    world = World()
    world.backoff.failed(CreatePlaceholder("s", "1 wanted"), refusal())
    assert world.backoff.allowed((CreatePlaceholder("s", "2 wanted"),)) == ()


def test_what_works_or_is_not_wanted_any_more_is_forgotten() -> None:
    world = World()
    world.backoff.failed(LABEL, refusal())
    world.backoff.failed(OTHER, refusal(message="nor this"))
    assert world.backoff.problems() == (
        "patch nodes 'a': 403 Forbidden: no",
        "patch nodes 'a': 403 Forbidden: nor this",
    )
    world.backoff.worked(LABEL)
    assert len(world.backoff.problems()) == 1
    world.backoff.allowed(())
    assert world.backoff.problems() == ()


@pytest.mark.parametrize("status", [409, 503])
def test_what_may_work_at_any_time_is_tried_at_once(status: int) -> None:
    world = World()
    assert world.backoff.failed(LABEL, refusal(status)) == ""
    assert world.backoff.allowed((LABEL,)) == (LABEL,)


def failure(status: int) -> KubernetesError:
    return KubernetesError(RequestTarget("create", "pods"), status=status, reason="X", message="no")


def test_the_api_fails_when_it_fails_three_times_in_a_row() -> None:
    now = [0.0]
    backoff = Backoff(5, 300, 10, clock=lambda: now[0])
    for status in (503, 503, 403, 503, 503):
        backoff.failed(LABEL, failure(status))
        assert not backoff.api_problem, "a refusal is an answer"
    backoff.failed(LABEL, failure(503))
    assert backoff.api_problem == f"the API server fails: {failure(503)}"
    now[0] = 10
    assert not backoff.api_problem, "it is tried again"
    backoff.failed(LABEL, failure(503))
    assert backoff.api_problem
    backoff.worked(OTHER)
    assert not backoff.api_problem


def reservation(pod: str) -> ReservePlaceholder:
    return ReservePlaceholder(
        ObjectKey("hub", "placeholder"), "s", "a", (), ObjectKey("hub", pod), START, START + timedelta(seconds=30), "x"
    )


def test_a_refused_reservation_is_not_tried_again_at_once_whatever_rounds_want() -> None:
    world = World()
    ada, eve = reservation("ada"), reservation("eve")
    world.backoff.failed(ada, refusal())
    world.backoff.allowed(())
    assert world.backoff.problem_of(ada) == "patch nodes 'a': 403 Forbidden: no"
    assert world.backoff.problem_of(eve) == ""
    assert world.backoff.problems() == (), "what rounds want"
    world.now = 5
    assert world.backoff.problem_of(ada) == ""
    world.backoff.failed(ada, refusal())
    world.now = 14.9
    assert world.backoff.problem_of(ada), "twice as long"
    world.backoff.worked(ada)
    assert world.backoff.problem_of(ada) == ""


def test_reservations_that_were_refused_long_ago_are_forgotten() -> None:
    world = World()
    for number in range(1_000):
        world.backoff.failed(reservation(f"user-{number}"), refusal())
        world.now += 1
    assert len(world.backoff._reservations) <= 11
