"""Misses as rows of a table and as JSON, each with a calendar entry to paste."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.scale_ahead.reports.misses import Miss, MissCause

#: Limit of the minutes in the line of an event.
_LONGEST_RAMP: Final = 24 * 60
_NOT_PREVENTABLE: Final = {
    MissCause.NODE_LIMIT: "No calendar entry helps: raise the limit of nodes.",
    MissCause.NO_NODE_CAME: "No calendar entry helps where no node comes: add nodes, or an autoscaler.",
}


@dataclass(frozen=True, slots=True)
class MissRow:
    """A row of the table of misses."""

    when: str
    """Local time with its zone."""
    misses: int
    launches: int
    minutes: int
    reason: str
    detail: str
    """Further information; may be empty."""
    entry: str
    """The calendar entry in YAML; empty if no entry helps."""
    line: str
    """The entry as a line for the description of an event in iCal; empty if a line cannot express it."""
    outcome: str
    """Result of a replay with the entry, or why no entry helps; may be empty."""


def miss_row(miss: Miss, profile: str, zone: tzinfo = UTC, *, detail: str = "", outcome: str = "") -> MissRow:
    """The row of a miss, with the calendar entry that would have prevented it."""
    found = miss.calendar_entry(profile)
    when = datetime_of(miss.begins).astimezone(zone)
    return MissRow(
        when=f"{when:%a %Y-%m-%d %H:%M %Z}",
        misses=miss.misses,
        launches=miss.launches,
        minutes=miss.ends - miss.begins,
        reason=miss.reason,
        detail=detail,
        entry=entry_line(found, zone) if miss.is_preventable else "",
        line=demand_line(found) if miss.is_preventable else "",
        outcome=_NOT_PREVENTABLE.get(miss.cause, outcome),
    )


def entry_line(entry: Occurrence, zone: tzinfo = UTC) -> str:
    """An entry for the list ``calendar:`` in YAML."""
    profile = f"profile: {_quoted(entry.profile)}, " if entry.profile else ""
    begins, ends = (each.astimezone(zone).isoformat() for each in (entry.begins, entry.ends))
    return (
        f'- {{{profile}users: {entry.users}, begins: "{begins}", ends: "{ends}",'
        f" counts: {entry.counts}, ramp_minutes: {_minutes(entry)}}}"
    )


def demand_line(entry: Occurrence) -> str:
    """An entry as the line of an event in iCal; empty if a line cannot express it."""
    profile = entry.profile
    if not profile or '"' in profile or not profile.isprintable() or _minutes(entry) > _LONGEST_RAMP:
        return ""
    name = f'"{profile}"' if any(each.isspace() for each in profile) else profile
    return f"{entry.users} of {name} {entry.counts} within {_minutes(entry)} min"


def miss_json(miss: Miss, profile: str) -> JsonObject:
    """A miss and its calendar entry, as JSON."""
    entry = miss.calendar_entry(profile)
    return {
        "begins": datetime_of(miss.begins).isoformat(),
        "ends": datetime_of(miss.ends).isoformat(),
        "misses": miss.misses,
        "launches": miss.launches,
        "expected": miss.expected,
        "placeholders": miss.target,
        "reason": miss.reason,
        "isPreventable": miss.is_preventable,
        "calendarEntry": {
            "profile": entry.profile,
            "begins": entry.begins.isoformat(),
            "ends": entry.ends.isoformat(),
            "users": entry.users,
            "counts": entry.counts,
            "ramp_minutes": _minutes(entry),
        },
    }


def _minutes(entry: Occurrence) -> int:
    return entry.ramp // timedelta(minutes=1)


def _quoted(text: str) -> str:
    """A text as a string of YAML in double quotes."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in escaped)
