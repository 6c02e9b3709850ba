"""A calendar that is read again and again: the last good copy counts while that fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import aiohttp
import pytest

from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource, read_location
from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading
from dra_spawner.scale_ahead.calendars.ical_text import MAX_BYTES
from tests.scale_ahead.calendars.ics_text import calendar, event
from tests.scale_ahead.calendars.read_here import read_here

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 10, 19, 12, tzinfo=UTC)
CLASS = calendar(
    event(
        "DTSTART;TZID=Europe/Berlin:20261020T100000", "DURATION:PT2H", "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY"
    )
)


class Server:
    """Answers of a calendar's server."""

    def __init__(self) -> None:
        self.answer: str | Exception = CLASS

    async def read(self, location: str) -> str:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def source(server: Server) -> CalendarSource:
    location = "https://calendar.example.com/secret.ics"
    return CalendarSource("courses", location, BERLIN, read=server.read, parse=read_here)


async def test_an_unchanged_calendar_is_computed_once_a_day() -> None:
    """Servers write new times into each answer; a calendar that cannot be computed is tried again later."""
    server, parsed = Server(), list[datetime]()

    async def parse(text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo) -> CalendarReading:
        parsed.append(begins)
        return await read_here(text, begins, ends, source=source, zone=zone)

    courses = CalendarSource("courses", "/courses.ics", BERLIN, read=server.read, parse=parse)
    for minutes in range(0, 26 * 60, 5):
        server.answer = CLASS.replace("DTSTAMP:20260101T000000Z", f"DTSTAMP:20260101T{minutes:06}Z")
        now = NOW + timedelta(minutes=minutes)
        await courses.refresh(now)
        assert courses.read_at == now
    assert len(parsed) == 2
    server.answer = "BEGIN:VCALENDAR"
    for minutes in range(0, 60, 5):
        await courses.refresh(now + timedelta(minutes=minutes))
        assert courses.occurrences()
        assert courses.problems == ("calendar courses cannot be read: it ends before its last line (END:VCALENDAR)",)
    assert len(parsed) == 2 + 4


async def test_a_calendar_that_is_down_keeps_its_occurrences_for_a_week() -> None:
    server = Server()
    courses = source(server)
    await courses.refresh(NOW)
    assert [each.users for each in courses.occurrences()] == [200, 200]
    assert not courses.problems
    server.answer = OSError(111, "Connection refused")
    for days in (1, 2, 6):
        now = NOW + timedelta(days=days)
        await courses.refresh(now)
        assert courses.occurrences()[-1].begins > now, "it is computed anew from the last good copy"
        assert courses.problems == ("calendar courses cannot be read: Connection refused",)
        assert courses.is_stale(now)
        assert courses.age(now) == timedelta(days=days)
    await courses.refresh(NOW + timedelta(days=8))
    assert not courses.occurrences(), "older than a week"
    assert courses.is_stale(NOW + timedelta(days=8))
    server.answer = CLASS
    await courses.refresh(NOW + timedelta(days=9))
    assert courses.occurrences()
    assert not courses.problems
    assert not courses.is_stale(NOW + timedelta(days=9))


async def test_a_sign_in_page_is_no_empty_calendar() -> None:
    """Here each calendar is read in a process of its own, as the service does."""
    server = Server()
    courses = CalendarSource("courses", "/courses.ics", BERLIN, read=server.read)
    await courses.refresh(NOW)
    server.answer = "<html>Please sign in</html>"
    await courses.refresh(NOW + timedelta(minutes=5))
    assert courses.occurrences()
    assert "BEGIN:VCALENDAR" in courses.problems[0]
    assert not courses.is_stale(NOW + timedelta(minutes=5))


async def test_an_event_that_is_removed_is_gone() -> None:
    server = Server()
    courses = source(server)
    await courses.refresh(NOW)
    server.answer = calendar()
    await courses.refresh(NOW + timedelta(minutes=5))
    assert not courses.occurrences()


async def test_one_that_never_answered_is_stale_after_an_hour() -> None:
    server = Server()
    server.answer = TimeoutError()
    courses = source(server)
    await courses.refresh(NOW)
    assert not courses.is_stale(NOW)
    later = NOW + timedelta(minutes=61)
    await courses.refresh(later)
    assert courses.is_stale(later)
    assert courses.age(later) is None


@pytest.mark.parametrize(
    "error", [aiohttp.InvalidURL("https://calendar.example.com/secret.ics"), OSError("https://x/secret.ics")]
)
async def test_no_problem_shows_the_address(error: Exception) -> None:
    server = Server()
    server.answer = error
    courses = source(server)
    await courses.refresh(NOW)
    assert "secret" not in " ".join(courses.problems)


async def test_files(tmp_path: Path) -> None:
    path = tmp_path / "courses.ics"
    path.write_text(CLASS, "utf-8-sig")
    assert (await read_location(str(path))).startswith("BEGIN:VCALENDAR")
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match="more than"):
        await read_location(str(path))
    with pytest.raises(FileNotFoundError):
        await read_location(str(tmp_path / "none.ics"))
