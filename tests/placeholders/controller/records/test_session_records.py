"""Records of sessions, and sessions with too few records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.history.records import TRIAL, Launch, NodeLeadTime, PresentServers
from dra_spawner.placeholders.controller.records.session_records import SessionRecords
from dra_spawner.placeholders.planner.answers.waits import SessionLengths

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Sessions:
    """Records, and a clock."""

    def __init__(self) -> None:
        self.now = START
        self.records = SessionRecords(lambda: self.now)

    def run(self, uid: str, choice: str = "gpu", begin: datetime | None = None) -> Launch:
        begin = begin or self.now
        launch = Launch(uid, begin - timedelta(seconds=9), choice=choice, bound=begin)
        self.records.record(launch)
        return launch

    def last(self, length: timedelta, count: int, choice: str = "gpu", is_estimate: bool = False) -> None:
        """Sessions of one length, which end now."""
        for number in range(count):
            uid, begin = f"{self.now}-{choice}-{number}", self.now - length
            self.records.record(
                Launch(uid, begin, choice=choice, bound=begin, ended=self.now, end_is_estimate=is_estimate)
            )

    def of(self, choice: str) -> SessionLengths:
        found = self.records.lengths_of(choice)
        assert found is not None
        return found


def test_sessions_of_the_choice_count_or_of_its_profile() -> None:
    sessions = Sessions()
    sessions.now += 9 * HOUR
    sessions.last(HOUR, 7, "gpu/memory=large")
    sessions.last(HOUR, 99, "cpu")
    assert sessions.records.lengths_of("gpu/memory=large") is None
    sessions.last(2 * HOUR, 8, "gpu")
    sessions.now += timedelta(minutes=1)
    assert sessions.of("gpu").examples_after(0) == 8
    assert sessions.of("gpu/memory=large").examples_after(0) == 15
    sessions.last(HOUR, 2, "gpu/memory=large")
    sessions.now += timedelta(minutes=1)
    assert sessions.of("gpu/memory=large").examples_after(0) == 9
    assert sessions.records.lengths_of("tpu") is None


def test_sessions_that_are_no_examples() -> None:
    sessions = Sessions()
    sessions.last(HOUR, 20, is_estimate=True)
    sessions.records.record_all(
        [
            NodeLeadTime("n", "n", "large", START),
            *(Launch(f"pending-{number}", START, choice="gpu", ended=START + HOUR) for number in range(20)),
            *(Launch(f"unknown-{number}", START, bound=START, ended=START + HOUR) for number in range(20)),
        ]
    )
    assert sessions.records.lengths_of("gpu") is None


def test_the_same_record_again_is_no_other_session() -> None:
    sessions = Sessions()
    launch = Launch("a", START - HOUR, choice="gpu", bound=START - HOUR, ended=START)
    sessions.records.record_all([launch] * 20)
    assert sessions.records.lengths_of("gpu") is None


def test_running_sessions_count_as_longer_than_they_are() -> None:
    sessions = Sessions()
    for number in range(8):
        sessions.run(f"runs-{number}")
    sessions.now += HOUR
    sessions.last(HOUR / 2, 8)
    assert sessions.records.began("runs-0") == START
    assert sessions.of("gpu").ended_within(0, 2000) == pytest.approx(0.5)
    sessions.records.record(PresentServers(frozenset({"runs-0"})))
    sessions.now += timedelta(minutes=1)
    assert sessions.records.began("runs-1") is None
    assert sessions.of("gpu").ended_within(0, 2000) == pytest.approx(8 / 9)


def test_a_session_that_began_long_before_says_nothing_about_short_ones() -> None:
    sessions = Sessions()
    for number in range(99):
        sessions.run(f"old-{number}", begin=START - 9 * HOUR)
    sessions.now += HOUR
    sessions.last(HOUR / 2, 8)
    assert sessions.of("gpu").ended_within(0, 2000) == 1.0


def test_the_past_is_learned() -> None:
    sessions = Sessions()
    past = [
        Launch(str(number), START - 9 * HOUR, choice="gpu", bound=START - 9 * HOUR, ended=START - number * HOUR)
        for number in range(9)
    ]
    trials = [replace(each, uid=f"trial-{each.uid}", ended=START, source=TRIAL) for each in past]
    sessions.records.learn([*past, *trials], START - 9 * HOUR)
    assert sessions.of("gpu").ended_within(0, 4.5 * 3600) == pytest.approx(0.5, abs=0.01)


def test_memory_is_bounded() -> None:
    sessions = Sessions()
    for _ in range(40):
        sessions.now += HOUR
        sessions.last(HOUR / 2, 20)
    assert sessions.of("gpu").examples_after(0) == 300
    for number in range(3_000):
        sessions.last(HOUR / 2, 8, f"choice-{number}")
    assert sum(sessions.records.lengths_of(f"choice-{number}") is not None for number in range(3_000)) < 2_001
