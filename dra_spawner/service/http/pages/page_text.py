"""Texts of the pages: times, changes that people made, and values that keep a setting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from dra_spawner.common.counted_text import span
from dra_spawner.placeholders.planner.targets.overrides import OverrideKind
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry


def part_of_path(name: str) -> str:
    """A name as a part of an address; its slashes stay, as some proxies decode ``%2F`` and others refuse it."""
    return quote(name)


def moment(iso: str) -> str:
    """A time of the API in UTC, for people."""
    return f"{datetime.fromisoformat(iso).astimezone(UTC):%a %Y-%m-%d %H:%M} UTC" if iso else ""


def begins(entry: Mapping[str, Any]) -> str:
    """The begin of a calendar entry, in its own time zone."""
    return f"{datetime.fromisoformat(entry['begins']):%a %Y-%m-%d %H:%M} {entry['zone']}"


def local_begin(entry: CalendarEntry) -> dict[str, Any]:
    """The first begin of an added entry, for `begins`."""
    first = entry.begins.replace(tzinfo=entry.zone)
    return {"begins": first.isoformat(), "zone": first.tzname()}


def clock(iso: str, entry: Mapping[str, Any]) -> str:
    """A time in the zone of a calendar entry, with the day if it is another one than that of its begin."""
    begin = datetime.fromisoformat(entry["begins"])
    at = datetime.fromisoformat(iso).astimezone(begin.tzinfo)
    return f"{at:%H:%M}" if at.date() == begin.date() else moment_beside(iso, entry)


def moment_beside(iso: str, entry: Mapping[str, Any] | None) -> str:
    """A time in the zone of a calendar entry, with zone and date; in UTC where there is none."""
    if entry is None:
        return moment(iso)
    at = datetime.fromisoformat(iso).astimezone(datetime.fromisoformat(entry["begins"]).tzinfo)
    return f"{at:%a %Y-%m-%d %H:%M} {entry['zone']}"


def person(by: str) -> str:
    """The name of a person; a program stays what it is."""
    return by.removeprefix("user ") or "an earlier version"


def begins_in(entry: Mapping[str, Any], now: datetime) -> str:
    """How long it is until a calendar entry begins, or since it began."""
    seconds = (datetime.fromisoformat(entry["begins"]) - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def has_begun(entry: Mapping[str, Any], now: datetime) -> bool:
    """Whether a calendar entry has begun: its last verdict is one of the past."""
    return datetime.fromisoformat(entry["begins"]) <= now


def unrehearsed(entry: Mapping[str, Any], now: datetime) -> str:
    """Why a calendar entry has no rehearsal."""
    left = datetime.fromisoformat(entry["begins"]) - now
    if left > timedelta(days=1) and not entry["added_by"]:
        return "rehearsed from a day before it begins"
    if left <= timedelta(0):
        return "it has begun"
    return "it is being rehearsed" if entry["added_by"] and not entry["unusable_because"] else "not rehearsed yet"


#: By kind of a setting: what a person did who set it, who ended it, and about what.
_DEEDS: Final = {
    OverrideKind.PLACEHOLDERS: ("set numbers of", "ended the numbers of", "{name}"),
    OverrideKind.PAUSED: ("paused", "resumed", "{name}"),
    OverrideKind.DRAINING: ("drained", "ended the drain of", "node {name}"),
    OverrideKind.DEVICES: ("drained", "ended the drain of", "device {name}"),
    OverrideKind.OBSERVING: ("stopped decisions of", "resumed decisions of", "the service"),
    OverrideKind.ACTING: ("let forecasts act in", "let forecasts only advise in", "the service"),
}


def deed(change: str, subject: str) -> dict[str, str]:
    """What a person did and about what, for pages; `change` and `subject` of the audit trail."""
    kind, _, name = subject.partition(" ")
    if change not in ("set", "deleted") or kind not in list(OverrideKind):
        return {"change": change, "subject": subject.replace("calendar-entry ", "calendar entry ")}
    has_set, has_ended, about = _DEEDS[OverrideKind(kind)]
    return {"change": has_set if change == "set" else has_ended, "subject": about.format(name=name)}


def change_text(details: str) -> str:
    """Details of a change: of a setting, its numbers, end and reason; of a calendar entry, title, users and begin."""
    try:
        written = json.loads(details)
    except ValueError:
        return details
    if not isinstance(written, dict):
        return details
    parts = []
    if isinstance(written.get("users"), str):
        parts += [f"“{written['name']}”"] if written.get("name") else []
        begin = [each for key in ("begins", "timezone") if isinstance(each := written.get(key), str)]
        parts += [written["users"].replace('"', ""), " ".join(("begins", *begin))]
    if "min" in written and "max" in written:
        parts.append(f"{written['min']} to {written['max']}")
    if isinstance(written.get("until"), str):
        parts.append(f"until {written['until'][:16].replace('T', ' ')} UTC")
    if isinstance(written.get("evict_at"), str):
        parts.append(f"servers end {written['evict_at'][:16].replace('T', ' ')} UTC")
    if written.get("reason"):
        parts.append(f"“{written['reason']}”")
    return ", ".join(parts)


def kept_values(setting: Mapping[str, Any]) -> str:
    """Values of the chart that keep a setting for good, as YAML; empty for one that is made for a time only."""
    if setting["kind"] == OverrideKind.PLACEHOLDERS:
        # JSON is YAML, and a choice may have any character in its name.
        numbers = f"{{min: {setting['min']}, max: {setting['max']}}}"
        return f"placeholders:\n  targets:\n    {json.dumps(setting['name'])}: {numbers}"
    if setting["kind"] == OverrideKind.ACTING:
        return "service:\n  config:\n    scale_ahead: act"
    return ""
