"""When nodes are ordered and started, and how long users wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.rehearsal.timetable import (
    Waits,
    arrivals,
    order_time,
    start_delays,
    starts_on_demand,
    waits,
)
from tests.all_of_them import all_of_them

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def minutes(*numbers: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(minutes=each) for each in numbers)


def after_noon(*numbers: float) -> tuple[datetime, ...]:
    return tuple(NOON + each for each in minutes(*numbers))


@all_of_them(
    "nodes, per_minute, expected",
    [
        (3, None, minutes(0, 0, 0)),
        (5, 2.0, minutes(0, 0, 1, 1, 2)),
        (3, 0.5, minutes(0, 2, 4)),
        (5, 2.5, minutes(0, 0, 0.8, 0.8, 1.6)),
        (0, 2.0, ()),
    ],
)
def test_nodes_start_one_after_the_other(nodes: int, per_minute: float | None, expected: tuple[timedelta, ...]) -> None:
    assert start_delays(nodes, per_minute) == expected


def test_the_last_node_is_useful_in_time() -> None:
    (useful,) = minutes(9)
    ordered = order_time(NOON, useful, 11, 5.0)
    assert ordered == NOON - timedelta(minutes=11)
    assert ordered + start_delays(11, 5.0)[-1] + useful == NOON
    assert order_time(NOON, useful, 0, 5.0) == NOON - useful


def test_a_lead_time_across_a_change_of_the_clock() -> None:
    """At 3:10 after the change, ten minutes of lead time and five of margin are 1:55, not 2:55."""
    berlin = ZoneInfo("Europe/Berlin")
    begins = datetime(2027, 3, 28, 3, 10, tzinfo=berlin).astimezone(UTC)
    ordered = order_time(begins - timedelta(minutes=5), timedelta(minutes=10), 1, None)
    assert ordered.astimezone(berlin).isoformat() == "2027-03-28T01:55:00+01:00"


def test_nodes_on_demand_keep_the_pace() -> None:
    assert starts_on_demand(after_noon(0, 0, 0, 0.5, 7), 2.0) == after_noon(0, 0, 1, 1, 7)
    assert starts_on_demand(after_noon(0, 3), None) == after_noon(0, 3)


def test_most_users_come_at_the_begin() -> None:
    """As in a replay: triangular, with the peak at a sixth."""
    come = arrivals(NOON, timedelta(minutes=12), 1200)
    assert come[0] == NOON
    assert come == tuple(sorted(come))
    shares = [sum(each < NOON + timedelta(minutes=minute) for each in come) / 1200 for minute in (2, 4, 12)]
    assert shares == [pytest.approx(1 / 6, abs=0.01), pytest.approx(7 / 15, abs=0.01), 1.0]
    drawn = Random(1)
    for part, share in zip((2, 4), shares, strict=False):
        assert sum(drawn.triangular(0, 12, 2) < part for _ in range(5000)) / 5000 == pytest.approx(share, abs=0.03)
    assert arrivals(NOON, timedelta(0), 2) == after_noon(0, 0)
    assert arrivals(NOON, timedelta(minutes=10), 0) == ()


def test_the_first_user_gets_the_first_slot() -> None:
    come = after_noon(0, 1, 2, 3)
    assert waits(come, after_noon(0, 0, 0, 0)) == Waits()
    assert waits(come, after_noon(6, -5, 2, 6)) == Waits(3, timedelta(minutes=4), timedelta(minutes=8) / 3)
    assert waits(come, after_noon(1)) == Waits(4, timedelta(minutes=1), timedelta(minutes=1), 3)
    assert waits(come, ()) == Waits(4, without_end=4)
    assert waits((), after_noon(1)) == Waits()
