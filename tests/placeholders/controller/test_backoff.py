"""What the API server refuses is not asked again at once, and is told as long as it is wanted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from dra_spawner.kube.api_errors import KubernetesError, RequestTarget
from dra_spawner.placeholders.controller.backoff import Backoff
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode, ReservePlaceholder
from dra_spawner.simulator.claims import ObjectKey
from tests.containers import max_held
from tests.set_clock import SetClock

LABEL = LabelNode("a", "label", "true", "because")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
OTHER = LabelNode("b", "label", "true", "because")


def refusal(status: int = 403, message: str = "no") -> KubernetesError:
    reason = {403: "Forbidden", 409: "Conflict", 503: "ServiceUnavailable"}[status]
    return KubernetesError(RequestTarget("patch", "nodes", name="a"), status=status, reason=reason, message=message)


class Waits:
    """A back-off and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.backoff = Backoff(5, 300, 10, clock=lambda: self.now)


def test_tries_come_at_longer_and_longer_intervals() -> None:
    waits = Waits()
    tries = []
    while waits.now < 2000:
        if waits.backoff.allowed((LABEL,)):
            tries.append(waits.now)
            waits.backoff.failed(LABEL, refusal())
        waits.now += 1
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[:7] == [5, 10, 20, 40, 80, 160, 300]
    assert set(gaps[7:]) == {300}


def test_others_are_not_held_up() -> None:
    waits = Waits()
    waits.backoff.failed(LABEL, refusal())
    assert waits.backoff.allowed((LABEL, OTHER)) == (OTHER,)


def test_another_reason_makes_it_no_other_action() -> None:
    waits = Waits()
    waits.backoff.failed(CreatePlaceholder("s", "1 wanted"), refusal())
    assert waits.backoff.allowed((CreatePlaceholder("s", "2 wanted"),)) == ()


def test_what_works_or_is_not_wanted_any_more_is_forgotten() -> None:
    waits = Waits()
    waits.backoff.failed(LABEL, refusal())
    waits.backoff.failed(OTHER, refusal(message="nor this"))
    assert waits.backoff.problems() == (
        "patch nodes 'a': 403 Forbidden: no",
        "patch nodes 'a': 403 Forbidden: nor this",
    )
    waits.backoff.worked(LABEL)
    assert len(waits.backoff.problems()) == 1
    waits.backoff.allowed(())
    assert waits.backoff.problems() == ()


@pytest.mark.parametrize("status", [409, 503])
def test_what_may_work_at_any_time_is_tried_at_once(status: int) -> None:
    waits = Waits()
    assert waits.backoff.failed(LABEL, refusal(status)) == ""
    assert waits.backoff.allowed((LABEL,)) == (LABEL,)


def failure(status: int) -> KubernetesError:
    return KubernetesError(RequestTarget("create", "pods"), status=status, reason="X", message="no")


def test_the_api_fails_when_it_fails_three_times_in_a_row() -> None:
    clock = SetClock(0.0)
    backoff = Backoff(5, 300, 10, clock=clock)
    for status in (503, 503, 403, 503, 503):
        backoff.failed(LABEL, failure(status))
        assert not backoff.api_problem, "a refusal is an answer"
    backoff.failed(LABEL, failure(503))
    assert backoff.api_problem == f"the API server fails: {failure(503)}"
    clock.now = 10
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
    waits = Waits()
    ada, eve = reservation("ada"), reservation("eve")
    waits.backoff.failed(ada, refusal())
    waits.backoff.allowed(())
    assert waits.backoff.problem_of(ada) == "patch nodes 'a': 403 Forbidden: no"
    assert waits.backoff.problem_of(eve) == ""
    assert waits.backoff.problems() == (), "what rounds want"
    waits.now = 5
    assert waits.backoff.problem_of(ada) == ""
    waits.backoff.failed(ada, refusal())
    waits.now = 14.9
    assert waits.backoff.problem_of(ada), "twice as long"
    waits.backoff.worked(ada)
    assert waits.backoff.problem_of(ada) == ""


def test_reservations_that_were_refused_long_ago_are_forgotten() -> None:
    waits = Waits()
    for number in range(1_000):
        waits.backoff.failed(reservation(f"user-{number}"), refusal())
        waits.now += 1
    assert max_held(waits.backoff) <= 11
