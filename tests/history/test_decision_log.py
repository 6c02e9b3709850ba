"""The log of decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner.history.decision_log import Decision, DecisionLog

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def decision(number: int, **fields: Any) -> Decision:
    return Decision(NOW + timedelta(seconds=number), "evict", f"Pod p{number}", "Because.", **fields)


def test_the_newest_come_first_and_the_oldest_are_forgotten():
    log = DecisionLog(limit=3)
    for number in range(1, 6):
        log.append(decision(number))
    assert [each.number for each in log.newest()] == [5, 4, 3]
    assert [each.number for each in log.newest(2)] == [5, 4]
    assert [each.number for each in log.newest(after=4)] == [5]
    assert log.newest(0) == ()
    assert log.count == 5


def test_some_are_chosen():
    log = DecisionLog()
    for number in range(1, 7):
        log.append(decision(number, profile="ab"[number % 2]))
    found = log.newest(2, matches=lambda each: each.profile == "a")
    assert [each.number for each in found] == [6, 4]


def test_the_time_of_the_last_round_is_known():
    log = DecisionLog()
    assert log.decided_at is None
    log.append(decision(1))
    log.note_round(NOW + timedelta(seconds=9))
    assert log.decided_at == NOW + timedelta(seconds=9)
    log.append(decision(2))  # of a round before
    log.append(decision(12), of_round=False)
    assert log.decided_at == NOW + timedelta(seconds=9)


def test_listeners():
    log, heard = DecisionLog(), []
    end = log.on_append(lambda each: heard.append(each.number))
    log.append(decision(1))
    end()
    end()
    log.append(decision(2))
    assert heard == [1]


def test_a_log_keeps_something():
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        DecisionLog(limit=0)
