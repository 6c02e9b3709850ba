"""Settings of scale-ahead: its mode, forecasts and calendars, validated early."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from dra_spawner.calendars.demand_lines import read_demand_line
from dra_spawner.calendars.entries import CalendarEntry
from dra_spawner.placeholders.planner.demand.settings import DemandSettings
from dra_spawner.profiles.problems import Problem, shown

__all__ = [
    "CalendarLocation",
    "DemandOptions",
    "DemandSettingsError",
    "ScaleAheadMode",
    "read_calendar_entries",
    "read_calendar_entry",
    "read_calendars",
    "read_demand",
]

_Read = TypeVar("_Read")
_MOST_ENTRIES: Final = 1000
_LONGEST_TEXT: Final = 250
_TIME: Final = 'a local time like "2026-11-24 17:00"'
_DAY: Final = 'a day like "2026-12-24"'


class ScaleAheadMode(StrEnum):
    """What is done with forecasts."""

    #: They are made and measured, and shown in metrics alone.
    OBSERVE = "observe"
    #: The page and the API show them, with what they would change.
    ADVISE = "advise"
    #: They are the targets of placeholders.
    ACT = "act"


class DemandSettingsError(ValueError):
    """Raised for settings of scale-ahead that make no sense, with every problem."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """How forecasts are made.

    Attributes
    ----------
    node_lead
        Time from the order of a node until users are let in, until nodes have shown it.
    node_starts_per_minute
        New nodes in a minute at most; None if unlimited.
    """

    settings: DemandSettings = field(default_factory=DemandSettings)
    node_lead: timedelta = timedelta(minutes=10)
    node_starts_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class CalendarLocation:
    """Where an iCal calendar is read.

    Attributes
    ----------
    location
        An address that begins with ``https://`` or ``http://``, or the path of a file.
    zone
        Time zone of events without one.
    longest_age
        Age of the last good copy until which it counts.
    """

    name: str
    location: str
    zone: tzinfo
    longest_age: timedelta = timedelta(days=7)


def read_demand(value: object, path: str = "demand") -> DemandOptions:
    """The settings of forecasts, as configured: ``{"hit_rate": 0.99, "timezone": "Europe/Berlin"}``.

    Raises
    ------
    DemandSettingsError
        With path, found and allowed values of every problem.
    """
    reader = _Reader(path)
    given = reader.mapping(value, '{"timezone": "Europe/Berlin"}')
    default = DemandSettings()
    changes: dict[str, object] = {
        "hit_rate": reader.number(given, "hit_rate", default.hit_rate, 0.5, 0.9999),
        "hold": reader.number(given, "hold", default.hold, 0, 100),
        "weeks": int(reader.number(given, "weeks", default.weeks, 0, 5)),
        "recurring_margin": reader.number(given, "recurring_margin", default.recurring_margin, 0, 10),
        "holiday_share": reader.number(given, "holiday_share", default.holiday_share, 0, 1),
        "zone": reader.zone(given, "timezone", UTC),
        "holidays": reader.days(given, "holidays"),
        "fill_nodes": reader.truth(given, "fill_nodes", default=default.fill_nodes),
    }
    margin = default.calendar_margin.total_seconds() / 60
    changes["calendar_margin"] = timedelta(minutes=reader.number(given, "calendar_margin_minutes", margin, 0, 240))
    lead = timedelta(minutes=reader.number(given, "node_lead_minutes", 10, 0.1, 240))
    starts = given.get("node_starts_per_minute")
    if starts is not None:
        starts = reader.number(given, "node_starts_per_minute", 0, 0.01, 10_000)
    reader.end(given)
    return DemandOptions(DemandSettings(**changes), lead, starts)  # type: ignore[arg-type]


def read_calendar_entries(value: object, zone: tzinfo, path: str = "calendar_entries") -> tuple[CalendarEntry, ...]:
    """The hub's own calendar, as configured.

    Parameters
    ----------
    value
        A list like ``[{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00", "minutes": 90}]``.
    zone
        Time zone of entries without one.

    Raises
    ------
    DemandSettingsError
        With path, found and allowed values of every problem.
    """
    if not isinstance(value, list | tuple) or len(value) > _MOST_ENTRIES:
        found = shown(value) if not isinstance(value, list | tuple) else f"{len(value)} entries"
        raise DemandSettingsError([Problem(path, found, f"a list of at most {_MOST_ENTRIES} entries")])
    entries: list[CalendarEntry] = []
    problems: list[Problem] = []
    for number, each in enumerate(value):
        try:
            entries.append(read_calendar_entry(each, zone, f"{path}[{number}]"))
        except DemandSettingsError as error:
            problems += error.problems
    if problems:
        raise DemandSettingsError(problems)
    return tuple(entries)


def read_calendar_entry(value: object, zone: tzinfo, path: str) -> CalendarEntry:
    """One entry of a calendar, such as ``{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00"}``.

    Raises
    ------
    DemandSettingsError
        With path, found and allowed values of every problem.
    """
    reader = _Reader(path)
    given = reader.mapping(value, '{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00"}')
    line = reader.text(given, "users", "")
    if "users" not in given:
        reader.wrong("users", "", 'a line like "350 of gpu-slice"')
    demand = reader.checked(given, "users", read_demand_line, 'a line like "350 of gpu-slice"')
    begins = reader.checked(given, "begins", _local_time, _TIME)
    if "begins" not in given:
        reader.wrong("begins", "", _TIME)
    lasts = timedelta(minutes=reader.number(given, "minutes", 90, 1, 7 * 24 * 60))
    until = reader.checked(given, "weekly_until", date.fromisoformat, _DAY)
    skipped = reader.days(given, "skipped")
    own_zone = reader.zone(given, "timezone", zone)
    name = reader.text(given, "name", line)
    reader.end(given)
    assert demand is not None  # or it was refused
    assert begins is not None
    return CalendarEntry(name or line, demand, begins, lasts, own_zone, until, skipped)


def read_calendars(value: object, zone: tzinfo, path: str = "calendars") -> tuple[CalendarLocation, ...]:
    """Places of iCal calendars, as configured: ``{"physics": "https://calendar.example.org/physics.ics"}``.

    Parameters
    ----------
    value
        By name: an address or a file; or a mapping with `location`, `timezone` and `longest_age_days`.
    zone
        Time zone of events without one, where the calendar has no setting.

    Raises
    ------
    DemandSettingsError
        With path and allowed values of every problem. It shows no address, which may hold a secret.
    """
    reader = _Reader(path)
    given = reader.mapping(value, '{"physics": "https://calendar.example.org/physics.ics"}')
    found = []
    for name, each in given.items():
        inner = _Reader(f"{path}.{name}")
        settings = inner.mapping({"location": each} if isinstance(each, str) else each, '{"location": "/a/file.ics"}')
        location = settings.get("location")
        if not isinstance(location, str) or not location.startswith(("https://", "http://", "/")):
            what = "a text" if isinstance(location, str) else shown(location)
            inner.wrong("location", what, "an address that begins with https:// or http://, or the path of a file")
            location = ""
        days = inner.number(settings, "longest_age_days", 7, 0.01, 366)
        own_zone = inner.zone(settings, "timezone", zone)
        inner.known.add("location")
        try:
            inner.end(settings)
        except DemandSettingsError as error:
            reader.problems += error.problems
        found.append(CalendarLocation(str(name), location, own_zone, timedelta(days=days)))
        reader.known.add(name)
    reader.end(given)
    return tuple(found)


def _local_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("the time zone has a setting of its own")
    return moment


class _Reader:
    """Reads one mapping, and gathers all that is wrong with it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.known: set[object] = set()

    def wrong(self, key: str, found: str, allowed: str) -> None:
        self.problems.append(Problem(f"{self.path}.{key}", found, allowed))

    def mapping(self, value: object, example: str) -> Mapping[object, object]:
        if not isinstance(value, Mapping):
            raise DemandSettingsError([Problem(self.path, shown(value), f"a mapping like {example}")])
        return value

    def number(self, given: Mapping[object, object], key: str, default: float, least: float, most: float) -> float:
        self.known.add(key)
        value = given.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.wrong(key, shown(value), f"a number from {least:g} to {most:g}")
        return default

    def truth(self, given: Mapping[object, object], key: str, *, default: bool) -> bool:
        self.known.add(key)
        value = given.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong(key, shown(value), "true or false")
        return default

    def text(self, given: Mapping[object, object], key: str, default: str) -> str:
        self.known.add(key)
        value = given.get(key, default)
        if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
            return value
        self.wrong(key, shown(value), f"a text of at most {_LONGEST_TEXT} characters")
        return default

    def zone(self, given: Mapping[object, object], key: str, default: tzinfo) -> tzinfo:
        return self.checked(given, key, ZoneInfo, 'a time zone like "Europe/Berlin"') or default

    def days(self, given: Mapping[object, object], key: str) -> frozenset[date]:
        self.known.add(key)
        value = given.get(key, [])
        if not isinstance(value, list | tuple):
            self.wrong(key, shown(value), f"a list of days, each {_DAY}")
            return frozenset()
        found = set()
        for number, each in enumerate(value):
            name = f"{key}[{number}]"
            day = self.checked({name: each}, name, date.fromisoformat, _DAY)
            found |= {day} if day is not None else set()
        return frozenset(found)

    def checked(
        self, given: Mapping[object, object], key: str, read: Callable[[str], _Read], allowed: str
    ) -> _Read | None:
        """The value as `read` returns it; None if it is absent or wrong."""
        self.known.add(key)
        if key not in given:
            return None
        value = given[key]
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT:
            # An unknown time zone is a KeyError; its name is a path for the library.
            with contextlib.suppress(ValueError, KeyError, OSError):
                return read(value)
        self.wrong(key, shown(value), allowed)
        return None

    def end(self, given: Mapping[object, object]) -> None:
        """Raise, if anything is wrong."""
        for key in given:
            if key not in self.known:
                self.wrong(str(key)[:100], shown(key), f"the keys {', '.join(sorted(map(str, self.known)))}")
        if self.problems:
            raise DemandSettingsError(self.problems)
