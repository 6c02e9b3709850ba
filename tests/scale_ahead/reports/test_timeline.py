"""Figures by the minute, in longer steps and by local days."""

from __future__ import annotations

from array import array
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.reports.timeline import Timeline, days, steps, worst_day
from tests.all_of_them import all_of_them

BERLIN = ZoneInfo("Europe/Berlin")


def timeline(minutes: int, begin: datetime) -> Timeline:
    """One launch in each minute; every tenth waits."""
    ones = array("L", [1] * minutes)
    missed = array("L", [int(minute % 10 == 0) for minute in range(minutes)])
    rising = array("L", range(minutes))
    return Timeline(minute_of(begin), ones, missed, rising, rising, rising)


def test_steps_have_rates_highest_and_means() -> None:
    found = steps(timeline(25, datetime(2026, 11, 2, tzinfo=UTC)), most=3)
    begin = minute_of(datetime(2026, 11, 2, tzinfo=UTC))
    assert found.edges == (begin, begin + 10, begin + 20, begin + 25)
    assert found.length == 10
    assert found.launches == (60, 60, 60)
    assert found.missed == (6, 6, 12)
    assert found.target == (9, 19, 24)
    assert found.warm == found.nodes == (4.5, 14.5, 22)


def test_a_part_is_within_the_timeline() -> None:
    whole = timeline(100, datetime(2026, 11, 2, tzinfo=UTC))
    found = steps(whole, whole.begin + 90, whole.begin + 500)
    assert (found.edges[0], found.edges[-1], found.length) == (whole.begin + 90, whole.end, 1)
    assert sum(found.launches) == 10 * 60
    assert whole.missed_within(whole.begin - 50, whole.begin + 11) == 2
    assert whole.missed_within(whole.end + 5, whole.end + 9) == 0


@all_of_them("a_day, expected", [(1, 5), (59, 240), (179, 720), (5_000, 14_400 + 4_320)])
def test_the_length_of_a_step_follows_from_the_time(a_day: int, expected: int) -> None:
    minutes = array("L", bytes(8 * 1440 * a_day))
    found = steps(Timeline(0, minutes, minutes))
    assert found.length == expected
    assert len(found.launches) <= 400
    assert (found.target, found.warm, found.nodes) == ((), (), ())


def test_nothing_has_no_steps() -> None:
    found = steps(Timeline(5))
    assert (found.edges, found.launches, found.length) == ((5,), (), 0)
    assert worst_day(Timeline(5), UTC) is None


def test_a_day_is_a_day_of_the_clock_on_the_wall() -> None:
    """In Berlin the clock goes back on 2026-10-25."""
    whole = timeline(3 * 1440, datetime(2026, 10, 24, 12, tzinfo=UTC))
    found = list(days(whole, BERLIN))
    assert [each.day for each in found] == [date(2026, 10, day) for day in (24, 25, 26, 27)]
    assert [(each.end - each.begin) / 60 for each in found] == [10, 25, 24, 13]
    assert sum(each.launches for each in found) == 3 * 1440


def test_the_worst_day_has_the_most_misses_else_the_most_launches() -> None:
    whole = timeline(3 * 1440, datetime(2026, 11, 2, tzinfo=UTC))
    whole.missed[1440 + 7] = 50
    worst = worst_day(whole, UTC)
    assert worst is not None
    assert (worst.day, worst.missed) == (date(2026, 11, 3), 144 + 50)
    whole.missed = array("L", bytes(8 * 3 * 1440))
    whole.launches[2 * 1440] = 5
    worst = worst_day(whole, UTC)
    assert worst is not None
    assert worst.day == date(2026, 11, 4)
