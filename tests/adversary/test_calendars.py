"""Whatever somebody writes into a calendar: other events and calendars count as before, and nothing waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from dra_spawner.scale_ahead.calendars.ical_events import CalendarUnreadable, read_ical
from dra_spawner.scale_ahead.calendars.ical_process import read_in_process
from tests.adversary.cpu_limit import cpu_limit
from tests.adversary.hostile_calendars import EVENTS, NOW, UNREADABLE, announced
from tests.all_of_them import all_of_them
from tests.polling import eventually
from tests.scale_ahead.calendars.ics_text import calendar, event

UTC = ZoneInfo("UTC")
BEGIN, END = NOW - timedelta(days=1), NOW + timedelta(days=8)
GOOD = [
    event(f"DTSTART:2026112{8 + at % 2}T0{at}0000Z", "DURATION:PT1H", f"SUMMARY:{100 + at} of large", uid=f"good-{at}")
    for at in range(8)
]


@all_of_them("hostile", EVENTS)
def test_no_event_hides_another_one(hostile: Callable[[], str]) -> None:
    with cpu_limit():
        found = read_ical(calendar(*GOOD[:4], hostile(), *GOOD[4:]), BEGIN, END, source="courses", zone=UTC)
    assert {each.users for each in found.occurrences if each.profile == "large"} == set(range(100, 108))
    assert len(found.occurrences) <= 1_000
    assert len(found.problems) <= 21
    for problem in found.problems:
        assert problem.isprintable(), problem
        assert len(problem) < 500


@all_of_them("text", UNREADABLE)
def test_what_is_no_calendar_is_refused(text: Callable[[], str]) -> None:
    with cpu_limit(), pytest.raises(CalendarUnreadable):
        read_ical(text(), BEGIN, END, source="courses", zone=UTC)


async def test_hostile_calendars_beside_a_good_one() -> None:
    """The others are read on, and the last good copy of the hostile one counts until it is mended."""
    texts = {"shared": calendar(announced()), "good": calendar(*GOOD)}

    async def read(location: str) -> str:
        return texts[location]

    book = CalendarBook((), [CalendarSource(name, name, UTC, read=read) for name in texts])
    await book.refresh(NOW)
    assert len(book.occurrences(NOW, timedelta(days=8))) == 9
    texts["shared"] = "BEGIN:VCALENDAR"
    texts["good"] = calendar(*GOOD[:4])
    await book.refresh(NOW + timedelta(minutes=5))
    assert len(book.occurrences(NOW, timedelta(days=8))) == 5
    (problem,) = book.problems(NOW)
    assert problem == "calendar shared cannot be read: it ends before its last line (END:VCALENDAR)"
    texts["shared"] = calendar(EVENTS["a zone that changes each second"](), EVENTS["no end"](), *GOOD)
    await book.refresh(NOW + timedelta(minutes=10))
    assert len(book.occurrences(NOW, timedelta(days=8))) == 8  # four events are in both calendars
    assert all(each.startswith("calendar shared: event '350 of gpu-slice' ") for each in book.problems(NOW))


async def test_a_defect_with_one_calendar_ends_nothing() -> None:
    """Not even an error that nobody expects, once each hour."""
    turns = asyncio.Queue[str]()

    async def fail(location: str) -> str:
        turns.put_nowait(location)
        raise AssertionError("https://user:secret@calendar.example.com")

    async def read(location: str) -> str:
        turns.put_nowait(location)
        return calendar(*GOOD)

    book = CalendarBook((), [CalendarSource("bad", "a", UTC, read=fail), CalendarSource("good", "b", UTC, read=read)])
    reading = asyncio.create_task(book.run(lambda: NOW, 0.0))
    try:
        async with asyncio.timeout(60):
            asked = [await turns.get() for _ in range(8)]
            while not book.sources[1].occurrences():
                await turns.get()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert {"a", "b"} == set(asked)
    assert book.problems(NOW) == ("calendar bad cannot be read: AssertionError",)


def children() -> set[str]:
    return {each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()}


SLOW = calendar(*(announced("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", uid=f"b{at}") for at in range(100)))


async def test_a_process_ends_with_its_time_and_with_its_caller() -> None:
    before = children()
    with pytest.raises(CalendarUnreadable, match=r"more than 0\.5 s"):
        await read_in_process(SLOW, BEGIN, END, source="courses", zone=UTC, timeout_seconds=0.5)
    assert children() <= before
    cancelled = asyncio.create_task(read_in_process(SLOW, BEGIN, END, source="courses", zone=UTC))
    await eventually(lambda: children() - before or None, "it has begun")
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert children() <= before
