"""The line of a rehearsal: number of users, profile and time.

It is the line of a calendar entry with a time::

    350 of gpu-slice at 17:00
    350 of gpu-slice in total within 20 min at 2026-11-24 17:00
    12 of "Large GPU" tomorrow at 9:00
    5 of gpu-slice now
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, NoReturn

from dra_spawner.common.close_names import did_you_mean
from dra_spawner.placeholders.planner.targets.choice_names import find_choice, is_combination
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes
from dra_spawner.scale_ahead.calendars.demand_lines import DemandLine, read_demand_line

_ALLOWED: Final = '"at 17:00", "at 2026-11-24 17:00", "tomorrow at 9:00" or "now" after the profile'
_DEMAND: Final = re.compile(r'\s*\d+\s+of\s+(?:"[^"]*"|[^\s"]+)', re.IGNORECASE)
_WHEN: Final = re.compile(
    r"(?:^|\s)(?:(?P<now>now)|(?:(?P<day>today|tomorrow)\s+)?at\s+(?:(?P<date>\d{4}-\d{2}-\d{2})(?:\s+|T))?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<offset>Z|[+-]\d{2}:\d{2})?)(?=\s|$)",
    re.IGNORECASE,
)
_FARTHEST: Final = timedelta(days=366)
_MINUTE: Final = timedelta(minutes=1)
_MAX_NAMES: Final = 20


@dataclass(frozen=True, slots=True)
class RehearsalLine:
    """A parsed line.

    Attributes
    ----------
    begins
        Time at which the first users start their servers, with the time zone of the line.
    """

    demand: DemandLine
    begins: datetime


def read_rehearsal_line(line: str, now: datetime, zone: tzinfo = UTC) -> RehearsalLine:
    """Read one line.

    A local time that does not exist, as summer time begins, is moved by the change. Of a local time that exists twice,
    the first one counts.

    Parameters
    ----------
    now
        Present time, with a time zone.
    zone
        Zone of the times in the line, unless they have an offset from UTC.

    Raises
    ------
    ValueError
        If the line is invalid; with the found and the allowed value.
    """
    head = _DEMAND.match(line)
    if head is None:
        read_demand_line(line)  # raises an error with the allowed form
        raise AssertionError(line)
    rest = line[head.end() :]
    when = list(_WHEN.finditer(rest))
    if len(when) != 1:
        found = f"{len(when)} times" if when else "no time"
        where = f"in {rest.strip()[:100]!r}" if rest.strip() else f"after {line.strip()[:100]!r}"
        raise ValueError(f"found {found} {where}; allowed is {_ALLOWED}")
    demand = read_demand_line(head[0] + rest[: when[0].start()] + rest[when[0].end() :])
    if demand.users > MAX_PLACEHOLDERS:
        raise ValueError(f"found {demand.users} users; a rehearsal allows at most {MAX_PLACEHOLDERS}")
    begins = _moment(when[0], now.astimezone(zone), zone)
    if begins.astimezone(UTC) - now.astimezone(UTC) > _FARTHEST:
        raise ValueError(f"found {begins:%Y-%m-%d}; allowed is a day within a year from now")
    return RehearsalLine(demand, begins)


def _moment(when: re.Match[str], now: datetime, zone: tzinfo) -> datetime:
    if when["now"]:
        return now
    if when["day"] and when["date"]:
        _refuse(when, "a day or a date, not both")
    day = now.date() + timedelta(days=(when["day"] or "").lower() == "tomorrow")
    try:
        if when["date"]:
            day = date.fromisoformat(when["date"])
        clock = datetime(day.year, day.month, day.day, int(when["hour"]), int(when["minute"]))
    except ValueError:
        _refuse(when, "a date like 2026-11-24 and a time from 0:00 to 23:59")
    if when["offset"]:
        try:
            zone = datetime.fromisoformat(f"2000-01-01T00:00{when['offset'].upper()}").tzinfo or UTC
        except ValueError:
            _refuse(when, "an offset from UTC like +01:00")
    try:
        # The conversion to UTC and back moves a local time that does not exist.
        begins = clock.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)
    except OverflowError:
        _refuse(when, "a day within a year from now")
    if begins.astimezone(UTC) <= now.astimezone(UTC) - _MINUTE:
        _refuse(when, f'a time after {now:%Y-%m-%d %H:%M %Z}, like "tomorrow at {begins:%H:%M}"; this one is past')
    return begins


def _refuse(when: re.Match[str], allowed: str) -> NoReturn:
    raise ValueError(f"found {when[0].strip()!r}; allowed is {allowed}") from None


def published_choice(line: RehearsalLine, published: PublishedShapes) -> RehearsalLine:
    """The line with the published name of its profile, or of its choice.

    Raises
    ------
    ValueError
        If the hub does not publish it; with the published names.
    """
    if published.problem:
        raise ValueError(f"the profiles are not known: {published.problem}")
    name = line.demand.profile
    choice = find_choice(name, published.shapes)
    if choice is None:
        skipped = find_choice(name, published.skipped)
        if skipped is not None:
            raise ValueError(f"found the profile {name!r}, which is left out: {published.skipped[skipped][:200]}")
        known = sorted(each for each in published.shapes if not is_combination(each))
        more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
        listed = ", ".join(known[:_MAX_NAMES]) or "none"
        hint = did_you_mean(name, [*known, *published.shapes])
        raise ValueError(f"found the profile {name[:100]!r}; the hub publishes {listed}{more}.{hint}")
    return replace(line, demand=replace(line.demand, profile=choice))
