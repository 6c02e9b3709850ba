"""Refused reservations among the decisions, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.reservation_log import ReservationLog
from dra_spawner.placeholders.controller.round.reservations import ReservedPlacement
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.packing.packed_nodes import DevicePreferences
from tests.placeholders.planner.objects import GPU

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Written:
    """A record, its clock, and its lines."""

    def __init__(self) -> None:
        self.now = START
        self.log = DecisionLog()
        self.record = ReservationLog(self.log, lambda: self.now, {GPU.id: "gpu"}.get)  # type: ignore[arg-type]

    def answer(self, pod: str, kind: AvailabilityState, reason: str = "so it is") -> None:
        self.record.answered(GPU, "hub", pod, ReservedPlacement(Placement(kind, reason, "node-a")))

    @property
    def lines(self) -> list[Decision]:
        return [each.decision for each in reversed(self.log.newest(1000))]


def test_the_reason_for_no_warm_placeholder_is_logged() -> None:
    """Fresh and warm placements are not logged."""
    written = Written()
    for kind in AvailabilityState:
        written.answer("ada", kind, "another node must come")
    quiet = {AvailabilityState.READY, AvailabilityState.AFTER_PLACEHOLDER, AvailabilityState.FREE}
    assert {line.code for line in written.lines} == set(AvailabilityState) - quiet
    assert {(line.kind, line.subject) for line in written.lines} == {("refuse-reservation", "Pod hub/ada")}
    assert {line.reason for line in written.lines} == {"no placeholder is warm for it: another node must come"}


def test_preferred_devices_are_logged_with_their_reason() -> None:
    written = Written()
    preferences = DevicePreferences({"gpu": {}}, "gpu-1 is in use already")
    placement = Placement(AvailabilityState.FREE, "free on node n1", "n1", preferences=preferences)
    for _ in range(3):
        written.record.answered(GPU, "hub", "ada", ReservedPlacement(placement))
    (line,) = written.lines
    assert (line.kind, line.subject, line.reason) == ("prefer-devices", "Pod hub/ada", "gpu-1 is in use already")
    assert (line.node, line.profile) == ("n1", "gpu")


def test_many_alike_are_one_line_and_a_number() -> None:
    written = Written()
    for number in range(100):
        written.answer(f"ada-{number}", AvailabilityState.WAITS)
        written.now += timedelta(seconds=0.05)
    written.answer("eve", AvailabilityState.NEVER)
    assert [each.subject for each in written.lines] == ["Pod hub/ada-0", "Pod hub/eve"]
    written.now += timedelta(seconds=10)
    written.answer("late", AvailabilityState.WAITS)
    assert written.lines[-1].subject == "Pod hub/late"
    assert written.lines[-1].details == {"similar_before": 99, "shape": GPU.id}
    written.now += timedelta(seconds=10)
    written.answer("later", AvailabilityState.WAITS)
    assert "similar_before" not in written.lines[-1].details


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    written = Written()
    written.answer("ada", AvailabilityState.NEVER)
    written.now -= timedelta(hours=1)
    written.answer("bob", AvailabilityState.NEVER)
    assert len(written.lines) == 2


def test_refusals_of_the_api_server_are_logged_and_do_not_flood() -> None:
    written = Written()
    for number in range(50):
        written.record.failed(GPU, "hub", f"ada-{number}", "the right to patch resourceclaims is missing")
    (line,) = written.lines
    assert (line.kind, line.outcome) == ("reserve-placeholder", "the right to patch resourceclaims is missing")
