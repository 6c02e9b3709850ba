"""A refused request is not repeated at once, and is shown while rounds still decide it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from dra_spawner.kube.client.api_errors import KubernetesError, RequestTarget
from dra_spawner.placeholders.controller.round.backoff import Backoff
from dra_spawner.placeholders.planner.actions import CreatePlaceholder, LabelNode, ReservePlaceholder
from dra_spawner.simulator.model.claims import ObjectKey
from tests.containers import max_held
from tests.set_clock import SetClock

LABEL = LabelNode("a", "label", "true", "because")
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
OTHER = LabelNode("b", "label", "true", "because")


def refusal(status: int = 403, message: str = "no") -> KubernetesError:
    reason = {403: "Forbidden", 409: "Conflict", 503: "ServiceUnavailable"}[status]
    return KubernetesError(RequestTarget("patch", "nodes", name="a"), status=status, reason=reason, message=message)


class ClockedBackoff:
    """A back-off and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.backoff = Backoff(5, 300, 10, clock=lambda: self.now)


def test_tries_come_at_longer_and_longer_intervals() -> None:
    clocked = ClockedBackoff()
    tries = []
    while clocked.now < 2000:
        if clocked.backoff.allowed((LABEL,)):
            tries.append(clocked.now)
            clocked.backoff.failed(LABEL, refusal())
        clocked.now += 1
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[:7] == [5, 10, 20, 40, 80, 160, 300]
    assert set(gaps[7:]) == {300}


def test_other_actions_are_not_delayed() -> None:
    clocked = ClockedBackoff()
    clocked.backoff.failed(LABEL, refusal())
    assert clocked.backoff.allowed((LABEL, OTHER)) == (OTHER,)


def test_an_action_with_another_reason_is_the_same_action() -> None:
    clocked = ClockedBackoff()
    clocked.backoff.failed(CreatePlaceholder("s", "1 wanted"), refusal())
    assert clocked.backoff.allowed((CreatePlaceholder("s", "2 wanted"),)) == ()


def test_actions_that_succeed_or_are_no_longer_decided_are_forgotten() -> None:
    clocked = ClockedBackoff()
    clocked.backoff.failed(LABEL, refusal())
    clocked.backoff.failed(OTHER, refusal(message="nor this"))
    assert clocked.backoff.problems() == (
        "patch nodes 'a': 403 Forbidden: no",
        "patch nodes 'a': 403 Forbidden: nor this",
    )
    clocked.backoff.worked(LABEL)
    assert len(clocked.backoff.problems()) == 1
    clocked.backoff.allowed(())
    assert clocked.backoff.problems() == ()


@pytest.mark.parametrize("status", [409, 503])
def test_conflicts_and_unavailable_servers_are_retried_at_once(status: int) -> None:
    clocked = ClockedBackoff()
    assert clocked.backoff.failed(LABEL, refusal(status)) == ""
    assert clocked.backoff.allowed((LABEL,)) == (LABEL,)


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
    key, until = ObjectKey("hub", "placeholder"), START + timedelta(seconds=30)
    return ReservePlaceholder(key, "s", "a", (), ObjectKey("hub", pod), START, until, "x", "ready")


def test_a_refused_reservation_is_not_retried_at_once_whatever_rounds_decide() -> None:
    clocked = ClockedBackoff()
    ada, eve = reservation("ada"), reservation("eve")
    clocked.backoff.failed(ada, refusal())
    clocked.backoff.allowed(())
    assert clocked.backoff.problem_of(ada) == "patch nodes 'a': 403 Forbidden: no"
    assert clocked.backoff.problem_of(eve) == ""
    assert clocked.backoff.problems() == (), "the problems of rounds only"
    clocked.now = 5
    assert clocked.backoff.problem_of(ada) == ""
    clocked.backoff.failed(ada, refusal())
    clocked.now = 14.9
    assert clocked.backoff.problem_of(ada), "twice as long"
    clocked.backoff.worked(ada)
    assert clocked.backoff.problem_of(ada) == ""


def test_reservations_that_were_refused_long_ago_are_forgotten() -> None:
    clocked = ClockedBackoff()
    for number in range(1_000):
        clocked.backoff.failed(reservation(f"user-{number}"), refusal())
        clocked.now += 1
    assert max_held(clocked.backoff) <= 11
