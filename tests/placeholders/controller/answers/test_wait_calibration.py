"""Estimates of waits, compared with the waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.controller.answers.wait_calibration import EstimateOutcome, WaitCalibration
from dra_spawner.placeholders.planner.answers.waits import WaitInterval

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
IN_A_MINUTE = WaitInterval(50, 70)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_an_interval_counts_from_the_creation() -> None:
    early, inside, late = EstimateOutcome.EARLY, EstimateOutcome.INSIDE, EstimateOutcome.LATE
    for seconds, outcome in ((10, early), (50, early), (55, inside), (75, inside), (76, late)):
        calibration = WaitCalibration()
        calibration.note("a", START, after(5), IN_A_MINUTE)
        for name in ("a", "a", "another"):
            calibration.bound(name, after(seconds))
        assert calibration.counts == {outcome: 1}, seconds


def test_a_server_without_an_estimate_counts_for_nothing() -> None:
    calibration = WaitCalibration()
    calibration.note("a", START, START, None)
    assert calibration.knows("a")
    calibration.bound("a", after(60))
    assert (calibration.counts.total(), calibration.share_inside, calibration.knows("a")) == (0, None, False)


def test_servers_that_end_without_a_node() -> None:
    calibration = WaitCalibration()
    for name in ("gave up soon", "gave up late", "pending"):
        calibration.note(name, START, START, IN_A_MINUTE)
    calibration.keep_only({"pending", "gave up late"}, after(20))
    calibration.keep_only({"pending"}, after(80))
    assert calibration.counts == {EstimateOutcome.LATE: 1}
    calibration.note("in time", START, START, IN_A_MINUTE)
    calibration.bound("in time", after(60))
    assert calibration.share_inside == 0.5


def test_memory_is_bounded() -> None:
    calibration = WaitCalibration()
    for number in range(6_000):
        calibration.note(str(number), START, START, IN_A_MINUTE)
    assert sum(calibration.knows(str(number)) for number in range(6_000)) == 5_000
