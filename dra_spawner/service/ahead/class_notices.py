"""Notes for the members of a class's group that an announced time does not take place: it is cancelled or moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.placeholders.planner.targets.class_records import ClassNotice
from dra_spawner.placeholders.planner.targets.overrides import Overrides
from dra_spawner.scale_ahead.calendars.class_limits import last_end
from dra_spawner.scale_ahead.calendars.class_progress import time_text
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry

#: Of a time that is farther away nothing is said: its members have not read of it yet.
_AHEAD: Final = timedelta(days=14)


def with_notice(
    before: Overrides, after: Overrides, name: str, read: Callable[[JsonObject], CalendarEntry], by: str, now: datetime
) -> Overrides:
    """The settings after a change of an entry, with a note if its next time does not take place as announced.

    Parameters
    ----------
    name
        Id of the entry.
    read
        Reads a calendar entry; raises ValueError for one that is invalid.
    by
        Who changes it.
    """
    owner = before.classes.owners.get(name)
    if owner is None or name not in before.entries:
        return after
    was = _times(before, name, read, now)
    times = _times(after, name, read, now)
    if not was or any(each.astimezone(UTC) == was[0].astimezone(UTC) for each in times):
        return after
    title = str(before.entries[name].get("name") or "")
    instead = time_text(times[0]) if times else ""
    notice = ClassNotice(title, owner.group, owner.by, by, was[0].astimezone(UTC), time_text(was[0]), instead)
    return replace(after, classes=after.classes.with_notice(name, notice))


def _times(
    settings: Overrides, name: str, read: Callable[[JsonObject], CalendarEntry], now: datetime
) -> list[datetime]:
    """Begins within the next days, in the zone of the entry."""
    try:
        entry = read(settings.entries[name])
    except (KeyError, ValueError):  # it is deleted, or another writer wrote it
        return []
    until = min(max(last_end(entry), now), now + _AHEAD)
    return [each.begins for each in entry.occurrences(now, until, "") if each.begins > now]
