"""All calendars of a hub: its own entries, and iCal calendars that are read periodically."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.common.log_once import LogOnce
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

log = logging.getLogger(__name__)

OWN_ENTRIES: Final = "calendar_entries"
"""`Occurrence.source` of the hub's own entries: the name of their setting."""
ADDED_ENTRIES: Final = "api/calendar-entries"
"""`Occurrence.source` of entries that administrators add."""
_INTERVAL_SECONDS: Final = 300.0
_PAST: Final = timedelta(days=1)


def _announcement(each: Occurrence) -> tuple[object, ...]:
    """What is equal of one event in two calendars: more than its UID, by which a calendar could hide another's."""
    times = each.begins.timestamp(), each.ends.timestamp()
    return each.uid, *times, each.profile, each.users, each.counts, each.ramp


def _numbered(found: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Occurrences, of which each differs from all others in more than its number of users and its end."""
    seen = Counter[tuple[object, ...]]()
    # The one that ends first has the last number: the others keep theirs when it is forgotten.
    for each in sorted(found, key=lambda each: each.ends.timestamp(), reverse=True):
        same = each.source, each.name, each.profile, each.begins.timestamp(), each.entry_id
        seen[same] += 1
        yield replace(each, entry_id=f"{seen[same]}") if seen[same] > 1 else each


class CalendarBook:
    """The calendars of a hub.

    Parameters
    ----------
    entries
        The hub's own entries.
    sources
        Calendars by address or file.
    """

    def __init__(self, entries: Iterable[CalendarEntry] = (), sources: Iterable[CalendarSource] = ()) -> None:
        self.entries = tuple(entries)
        self.sources = tuple(sources)
        self.added: tuple[CalendarEntry, ...] = ()
        """Entries that administrators have added."""
        self.awaited_until: datetime | None = None
        """Time until which the calendars are incomplete without the added entries; None if these are loaded."""
        self._log_once = LogOnce(log, "Scale-ahead: %s")

    def occurrences(
        self, now: datetime, ahead: timedelta, added: Iterable[CalendarEntry] | None = None
    ) -> tuple[Occurrence, ...]:
        """Occurrences that begin within `ahead` and did not end more than a day ago, in the order of their begin.

        Parameters
        ----------
        added
            Added entries to use instead of the present ones.
        """
        begins, ends = now - _PAST, now + ahead
        found = [each for entry in self.entries for each in entry.occurrences(begins, ends, OWN_ENTRIES)]
        added = self.added if added is None else added
        found += (each for entry in added for each in entry.occurrences(begins, ends, ADDED_ENTRIES))
        elsewhere = set[tuple[object, ...]]()
        for source in self.sources:
            # An event that several calendars have, as after an invitation, announces its users once.
            mine = [each for each in source.occurrences() if each.ends > begins and each.begins < ends]
            found += (each for each in mine if _announcement(each) not in elsewhere)
            elsewhere |= {_announcement(each) for each in mine if each.uid}
        return tuple(sorted(_numbered(found), key=lambda each: (each.begins.timestamp(), each.name, each.profile)))

    def problems(self, now: datetime) -> tuple[str, ...]:
        """Problems of calendars, as sentences without their full stop."""
        found: list[str] = []
        for source in self.sources:
            found += source.problems
            if source.is_stale(now):
                copy = (
                    f"its last good copy is of {source.read_at:%Y-%m-%d %H:%M %Z}"
                    if source.read_at
                    else "there is no good copy"
                )
                found.append(f"calendar {source.name} could not be read for an hour: {copy}")
        return tuple(found)

    def is_complete(self, now: datetime) -> bool:
        """Whether all entries are known: each calendar was read at least once, or could not be read for a day."""
        if self.awaited_until is not None and now < self.awaited_until:
            return False
        return all(source.read_at is not None or source.is_given_up(now) for source in self.sources)

    async def run(self, now: Callable[[], datetime], seconds: float = _INTERVAL_SECONDS) -> None:
        """Read the calendars periodically, until cancelled."""
        while self.sources:
            await self.refresh(now())
            await asyncio.sleep(seconds)

    async def refresh(self, now: datetime) -> None:
        """Read all calendars once, and log new problems. They are read at once, and computed one after the other."""
        turn = asyncio.Lock()
        async with asyncio.TaskGroup() as tasks:
            for source in self.sources:
                tasks.create_task(source.refresh(now, turn), name=f"calendar {source.name}")
        self._log_once.present(self.problems(now))
