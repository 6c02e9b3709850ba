"""Entries by themselves: once and weekly, over the changes of the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.demand_lines import read_demand_line
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

BERLIN = ZoneInfo("Europe/Berlin")
YEAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


def entry(begins: datetime, demand: str = "350 of gpu-slice", **more: object) -> CalendarEntry:
    return CalendarEntry("Class", read_demand_line(demand), begins, timedelta(hours=2), BERLIN, **more)  # type: ignore[arg-type]


def utc(entry: CalendarEntry, begins: datetime = YEAR[0], ends: datetime = YEAR[1]) -> list[str]:
    return [each.begins.astimezone(UTC).strftime("%m-%d %H:%M") for each in entry.occurrences(begins, ends, "here")]


def test_once() -> None:
    (found,) = entry(datetime(2026, 12, 1, 17), "350 of gpu-slice within 5 min").occurrences(*YEAR, "here")
    begin = datetime(2026, 12, 1, 17, tzinfo=BERLIN)
    assert found == Occurrence(
        "Class", "gpu-slice", begin, begin + timedelta(hours=2), 350, ramp=timedelta(minutes=5), source="here"
    )


def test_weekly_at_the_same_wall_clock_time() -> None:
    weekly = entry(datetime(2026, 10, 20, 10), weekly_until=date(2026, 11, 10), skipped=frozenset({date(2026, 11, 3)}))
    assert utc(weekly) == ["10-20 08:00", "10-27 09:00", "11-10 09:00"]


def test_a_time_that_the_clock_skips_or_shows_twice() -> None:
    assert utc(entry(datetime(2026, 3, 29, 2, 30))) == ["03-29 01:30"]
    assert utc(entry(datetime(2026, 10, 25, 2, 30))) == ["10-25 00:30"]


def test_an_entry_over_the_change_lasts_as_long_as_ever() -> None:
    (found,) = entry(datetime(2026, 10, 25, 1, 30)).occurrences(*YEAR, "here")
    assert found.ends.astimezone(UTC) - found.begins.astimezone(UTC) == timedelta(hours=2)
    # The clock shows an end that is not after the begin.
    for minutes in (30, 45, 60):
        short = replace(entry(datetime(2026, 10, 25, 2, 30)), lasts=timedelta(minutes=minutes))
        (found,) = CalendarBook([short]).occurrences(YEAR[0], timedelta(days=365))
        assert found.ends.astimezone(UTC) - found.begins.astimezone(UTC) == timedelta(minutes=minutes)


def test_only_overlapping_occurrences_are_returned() -> None:
    weekly = entry(datetime(2026, 10, 20, 10), weekly_until=date(2026, 12, 24))
    begins = datetime(2026, 11, 3, 10, tzinfo=UTC)  # in the middle of one
    assert utc(weekly, begins, datetime(2026, 11, 10, 9, tzinfo=UTC)) == ["11-03 09:00"]


def test_an_entry_keeps_its_number_when_another_one_that_announces_the_same_is_over() -> None:
    """Its outcome is stored by the number."""
    short, long = (replace(entry(datetime(2026, 12, 1, 10)), lasts=timedelta(hours=each)) for each in (2, 20))
    for entries in ((short, long), (long, short)):
        book = CalendarBook(entries)
        during, after = (
            {
                each.ends: each.entry_id
                for each in book.occurrences(datetime(2026, 12, day, 18, tzinfo=UTC), timedelta(1))
            }
            for day in (1, 2)
        )
        assert (len(during), len(after)) == (2, 1)
        assert after.items() <= during.items()
