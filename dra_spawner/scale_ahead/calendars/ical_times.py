"""Times of events in the form that the library compares.

Calendars in use write an exception, a changed occurrence or the end of a rule in another form than the first time of
their event: in UTC, in another zone, without a zone, or as a day. They call zones as Windows does. The library
compares such times as texts, or refuses them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, available_timezones

from dra_spawner.scale_ahead.calendars.ical_text import EventText

if TYPE_CHECKING:
    from ical.event import Event

_LINE: Final = re.compile(r'([A-Za-z-]+)((?:;[A-Za-z-]+=(?:"[^"]*"|[^";:]*))*):(.*)', re.DOTALL)
_PARAMETER: Final = re.compile(r';([A-Za-z-]+)=("[^"]*"|[^";:]*)')
_UNTIL: Final = re.compile(r";?UNTIL=(\d{8}(?:T\d{6}Z?)?)(?=;|$)")
_MOST_PARTS: Final = 3  # such as America/Argentina/Salta
_LAST_SECOND: Final = time(23, 59, 59)


@dataclass(slots=True)
class PlainTimes:
    """Lines of an event's times as the library reads them.

    Attributes
    ----------
    until
        Last time of the rule, which its line does not have any more; empty without one.
    is_change
        Whether the event replaces an occurrence of a series: its ``EXDATE`` is the time of this occurrence.
    changes_later_ones
        Whether it changes all later occurrences, too.
    """

    lines: list[str] = field(default_factory=list)
    until: str = ""
    is_change: bool = False
    changes_later_ones: bool = False


def plain_times(event: EventText, defined: Collection[str]) -> PlainTimes:
    """The lines of an event's times, with names of zones that are known.

    Parameters
    ----------
    defined
        Names of the zones that the calendar defines.
    """
    found = PlainTimes()
    is_series = event.is_repeated
    for line in event.times:
        parts = _LINE.match(line)
        if parts is None:
            found.lines.append(line)
            continue
        name, value = parts[1].upper(), parts[3].strip().upper()
        parameters = {each[1].upper(): each[2].strip('"') for each in _PARAMETER.finditer(parts[2])}
        if name == "RRULE":
            if until := _UNTIL.search(value):
                found.until, value = until[1], _UNTIL.sub("", value).lstrip(";")
        elif name == "RECURRENCE-ID":
            if is_series:
                continue
            name, found.is_change = "EXDATE", True
            found.changes_later_ones = parameters.pop("RANGE", "").upper() == "THISANDFUTURE"
        elif name == "RDATE" and parameters.get("VALUE", "").upper() == "PERIOD":
            del parameters["VALUE"]
            value = ",".join(each.partition("/")[0] for each in value.split(","))
        if zone := parameters.get("TZID"):
            parameters["TZID"] = zone if zone in defined else zone_name(zone)
        written = (
            f';{key}="{each}"' if key == "TZID" else f";{key}={each.upper()}" for key, each in parameters.items()
        )
        found.lines.append(f"{name}{''.join(written)}:{value}")
    return found


def plain_zone(text: str) -> str:
    """The definition of a time zone, of which each offset begins at its first time also without a rule.

    The library knows that of rules only, and takes a zone whose clock never changes for UTC.
    """
    found: list[str] = []
    begin, has_rule = "", False
    for line in text.splitlines():
        name = line.partition(":")[0].partition(";")[0].upper()
        if name == "BEGIN":
            begin, has_rule = "", False
        elif name == "DTSTART":
            begin = line.partition(":")[2].strip()
        elif name == "RRULE":
            has_rule = True
        elif name == "END" and begin and not has_rule:
            found.append(f"RDATE:{begin}")
            begin = ""
        found.append(line)
    return "\r\n".join((*found, ""))


@cache
def zone_name(name: str) -> str:
    """The name of a time zone in the database of zones; the same name if it is not known there."""
    known = _zones_in_lower_case()
    lower = name.lower()
    if found := known.get(lower):
        return found
    from ical.tzif.extended_timezones import EXTENDED_TIMEZONES

    if (of_windows := EXTENDED_TIMEZONES.get(name, "").lower()) in known:
        return known[of_windows]
    # Some programs write a path before the name, with their own name in it.
    parts = lower.split("/")
    ends = ("/".join(parts[-number:]) for number in range(_MOST_PARTS, 0, -1))
    return next((known[each] for each in ends if each in known), name) if lower.startswith(("/", "tzone:")) else name


@cache
def known_zones() -> frozenset[str]:
    """Names of the database of zones."""
    return frozenset(available_timezones())


@cache
def _zones_in_lower_case() -> dict[str, str]:
    return {each.lower(): each for each in known_zones()}


@dataclass(frozen=True, slots=True)
class LaterChange:
    """A change of all occurrences from one on.

    Attributes
    ----------
    since
        Time of the first one, as the series has it.
    event
        Number of the event that has the change.
    shift
        How much later they take place, in local time.
    lasts
        Their new length.
    """

    since: date | datetime
    event: int
    shift: timedelta
    lasts: timedelta


def complete_series(
    events: Sequence[Event], times: Sequence[PlainTimes], zone: tzinfo
) -> tuple[list[Event], tuple[LaterChange, ...]]:
    """Events whose exceptions, additional times and ends have the form of their first time.

    Parameters
    ----------
    events
        Events of one series. The title of each is the number of its times.
    zone
        Time zone of times without one.
    """
    changes = [each for each in events if times[int(each.summary or "")].is_change]
    replaced = [moment for each in changes for moment in each.exdate]
    found, later = [], []
    for each in events:
        plain = times[int(each.summary or "")]
        if plain.is_change or each.dtstart is None:
            found.append(each.model_copy(update={"exdate": []}))
            continue
        found.append(_completed(each, plain.until, replaced, zone))
        later += [
            _later_change(change, each.dtstart, zone)
            for change in changes
            if times[int(change.summary or "")].changes_later_ones and change.exdate
        ]
    return found, tuple(sorted(later, key=lambda each: str(each.since)))


def _completed(event: Event, until: str, replaced: Sequence[date | datetime], zone: tzinfo) -> Event:
    first, rule = event.dtstart, event.rrule
    assert first is not None
    left_out = _all_like(first, (*event.exdate, *replaced), zone)
    added = _all_like(first, (each for each in event.rdate if isinstance(each, date)), zone)
    if rule is None and (added or left_out):
        # The first time is one of its times. The library knows that of rules only.
        added.insert(0, first)
    changed: dict[str, object] = {"exdate": left_out, "rdate": list(dict.fromkeys(added))}
    if rule is not None and until:
        changed["rrule"] = rule.model_copy(update={"until": _last_time(first, until, zone)})
    return event.model_copy(update=changed)


def _later_change(change: Event, first: date | datetime, zone: tzinfo) -> LaterChange:
    assert change.dtstart is not None
    since = _like(first, change.exdate[0], zone)
    shift = _on_the_wall(_like(first, change.dtstart, zone)) - _on_the_wall(since)
    return LaterChange(since, int(change.summary or ""), shift, change.computed_duration)


def _on_the_wall(moment: date | datetime) -> datetime:
    return moment.replace(tzinfo=None) if isinstance(moment, datetime) else datetime.combine(moment, time())


def _all_like(first: date | datetime, moments: Iterable[date | datetime], zone: tzinfo) -> list[date | datetime]:
    found = []
    for each in moments:
        with contextlib.suppress(OverflowError):  # at the end of time, where no class takes place
            found.append(_like(first, each, zone))
    return found


def _like(first: date | datetime, moment: date | datetime, zone: tzinfo) -> date | datetime:
    """A time of a series in the form of its first time; of a day, the time at which the series takes place on it."""
    if not isinstance(first, datetime):
        return _day(moment, zone)
    if not isinstance(moment, datetime):
        return datetime.combine(moment, first.timetz())
    if moment.tzinfo is None:
        return moment.replace(tzinfo=first.tzinfo)
    if first.tzinfo is None:
        return moment.astimezone(zone).replace(tzinfo=None)
    return moment.astimezone(first.tzinfo)


def _day(moment: date | datetime, zone: tzinfo) -> date:
    if not isinstance(moment, datetime):
        return moment
    is_midnight = moment.time() == time()
    return moment.date() if moment.tzinfo is None or is_midnight else moment.astimezone(zone).date()


def _last_time(first: date | datetime, until: str, zone: tzinfo) -> date | datetime:
    """The last time of a rule, as the library takes it: in UTC if the series has a time zone."""
    moment: date | datetime = datetime.fromisoformat(until)
    if "T" not in until:
        day = date.fromisoformat(until)
        # The series takes place on this day, too.
        moment = datetime.combine(day, _LAST_SECOND) if isinstance(first, datetime) else day
    last = _like(first, moment, zone)
    return last.astimezone(UTC) if isinstance(last, datetime) and last.tzinfo is not None else last


def moment_of(when: date | datetime, zone: tzinfo) -> datetime:
    """A time with its zone; of a day, its begin."""
    if not isinstance(when, datetime):
        return datetime.combine(when, time(), zone)
    if when.tzinfo is None:
        return when.replace(tzinfo=zone)
    # A zone that the calendar defines computes at each use.
    return when if when.tzinfo is UTC or isinstance(when.tzinfo, ZoneInfo) else when.astimezone(zone)


def changed_time(
    event: int, begins: datetime, ends: datetime, changes: Sequence[LaterChange], zone: tzinfo
) -> tuple[int, datetime, datetime]:
    """An occurrence of a series as the latest change of all later ones has it."""
    for each in reversed(changes):
        if begins >= moment_of(each.since, zone):
            moved = begins + each.shift
            return each.event, moved, moved + each.lasts
    return event, begins, ends


def existing_times(begins: datetime, ends: datetime) -> tuple[datetime, datetime]:
    """Both times, moved by the change if the local begin does not exist, as summer time begins."""
    start, end = (each.astimezone(UTC) for each in (begins, ends))
    moved, shown = start.astimezone(begins.tzinfo), begins.replace(tzinfo=None)
    if moved.replace(tzinfo=None) != shown:
        end = max(end, start + (ends.replace(tzinfo=None) - shown))
    return moved, end.astimezone(ends.tzinfo)
