"""Reads calendars in the test's own process: a process for each takes longer than what it does."""

from __future__ import annotations

from datetime import datetime, tzinfo

from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading, read_ical

__all__ = ["read_here"]


async def read_here(text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo) -> CalendarReading:
    """Act as `read_in_process`."""
    return read_ical(text, begins, ends, source=source, zone=zone)
