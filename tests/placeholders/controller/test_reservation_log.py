"""Promises and refusals among the decisions, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.placeholders.controller.reservation_log import ReservationLog
from dra_spawner.placeholders.controller.reservations import ReservedPlacement
from dra_spawner.placeholders.planner.placement import Placement, PlacementKind
from dra_spawner.placeholders.planner.view import Placeholder
from dra_spawner.simulator.pods import Pod
from tests.placeholders.planner.world import GPU, PLAIN

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Written:
    """A record, its clock, and what it wrote."""

    def __init__(self) -> None:
        self.now = START
        self.log = DecisionLog()
        self.record = ReservationLog(self.log, lambda: self.now, {GPU.id: "gpu"}.get)  # type: ignore[arg-type]

    def answer(self, pod: str, kind: PlacementKind, reason: str = "so it is") -> None:
        self.record.answered(GPU, "hub", pod, ReservedPlacement(Placement(kind, reason, "node-a")))

    @property
    def lines(self) -> list[Decision]:
        return [each.decision for each in reversed(self.log.newest(1000))]


def test_a_promise_says_for_whom_of_what_and_until_when() -> None:
    written = Written()
    placeholder = Placeholder(Pod("placeholder-1", "hub", "uid-1"), GPU.id)
    placement = Placement(PlacementKind.WARM, "kept ready on node node-a", "node-a", placeholder)
    until = START + timedelta(seconds=30)
    written.record.answered(
        GPU, "hub", "jupyter-ada", ReservedPlacement(placement, {"gpu": "placeholder-1-gpu"}, until)
    )
    # Without devices the place is taken by preemption: nothing is handed over, and nothing ends.
    written.record.answered(PLAIN, "hub", "jupyter-bob", ReservedPlacement(placement))
    first, second = written.lines
    assert (first.kind, first.code, first.subject, first.node) == (
        "reserve-placeholder",
        "warm",
        "Pod hub/jupyter-ada",
        "node-a",
    )
    assert (
        first.reason
        == "it gets the place of placeholder-1 on node node-a, with its devices, if it is there by 09:00:30 UTC"
    )
    assert (first.profile, first.outcome) == ("gpu", "done")
    assert first.details == {
        "placeholder": "hub/placeholder-1",
        "until": "2026-03-02T09:00:30+00:00",
        "claim.gpu": "placeholder-1-gpu",
        "shape": GPU.id,
    }
    assert second.reason == "it gets the place of placeholder-1 on node node-a"
    assert "until" not in second.details
    assert written.log.decided_at is None, "nobody looked at all the rest"


@pytest.mark.parametrize("kind", [PlacementKind.PREEMPTED, PlacementKind.SCALE_UP, PlacementKind.NEVER])
def test_who_gets_nothing_that_is_kept_finds_the_reason(kind: PlacementKind) -> None:
    written = Written()
    written.answer("ada", kind, "another node must come")
    (line,) = written.lines
    assert (line.kind, line.code, line.subject) == ("refuse-reservation", kind, "Pod hub/ada")
    assert line.reason == "no place is kept for it: another node must come"


def test_what_is_free_anyway_is_not_worth_a_line() -> None:
    written = Written()
    written.answer("ada", PlacementKind.FRESH)
    assert written.lines == []


def test_many_alike_are_one_line_and_a_number() -> None:
    written = Written()
    for number in range(100):
        written.answer(f"ada-{number}", PlacementKind.SCALE_UP)
        written.now += timedelta(seconds=0.05)
    written.answer("eve", PlacementKind.NEVER)
    assert [each.subject for each in written.lines] == ["Pod hub/ada-0", "Pod hub/eve"]
    written.now += timedelta(seconds=10)
    written.answer("late", PlacementKind.SCALE_UP)
    assert written.lines[-1].subject == "Pod hub/late"
    assert written.lines[-1].details == {"alike_before": 99, "shape": GPU.id}
    written.now += timedelta(seconds=10)
    written.answer("later", PlacementKind.SCALE_UP)
    assert "alike_before" not in written.lines[-1].details


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    written = Written()
    written.answer("ada", PlacementKind.NEVER)
    written.now -= timedelta(hours=1)
    written.answer("bob", PlacementKind.NEVER)
    assert len(written.lines) == 2


def test_what_the_api_server_refused_is_told_and_does_not_flood() -> None:
    written = Written()
    for number in range(50):
        written.record.failed(GPU, "hub", f"ada-{number}", "the right to patch resourceclaims is missing")
    (line,) = written.lines
    assert (line.kind, line.outcome) == ("reserve-placeholder", "the right to patch resourceclaims is missing")
