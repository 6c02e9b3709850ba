"""Settings of scale-ahead: its mode, forecasts and calendars, validated early."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.settings_reader import DAY_ALLOWED, SettingsReader, readers_of_list, refuse_settings
from dra_spawner.scale_ahead.calendars.demand_lines import read_demand_line
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.calendars.ical_text import one_line
from dra_spawner.scale_ahead.demand.estimators.quantile import hit_rate_of_costs
from dra_spawner.scale_ahead.demand.settings import DemandSettings

_MAX_ENTRIES: Final = 1000
_LONGEST_NAME: Final = 250
_HIT_RATES: Final = (0.5, 0.9999)
_COSTS: Final = (0.000_001, 1_000_000)
_TIME: Final = 'a local time like "2026-11-24 17:00"'
#: In other years a change of the zone may leave the calendar.
_YEARS: Final = (1970, 2999)
_AN_ENTRY: Final = '{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00"}'


class ScaleAheadMode(StrEnum):
    """What is done with forecasts."""

    #: They are made and measured, and shown in metrics alone.
    OBSERVE = "observe"
    #: The page and the API show them, with what they would change.
    ADVISE = "advise"
    #: They are the targets of placeholders.
    ACT = "act"


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
    location: str = field(repr=False)
    zone: tzinfo
    longest_age: timedelta = timedelta(days=7)


def read_demand(value: object, path: str = "demand") -> DemandOptions:
    """The settings of forecasts, as configured: ``{"hit_rate": 0.99, "timezone": "Europe/Berlin"}``.

    Instead of `hit_rate` there may be `costs`: of one user's wait for a node, and of an idle placeholder for an hour.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    reader = SettingsReader(value, path, 'a mapping like {"timezone": "Europe/Berlin"}')
    default, options = DemandSettings(), DemandOptions()
    lead = timedelta(minutes=reader.number("node_lead_minutes", options.node_lead.total_seconds() / 60, 0.1, 240))
    margin = reader.number("calendar_margin_minutes", default.calendar_margin.total_seconds() / 60, 0, 240)
    settings = DemandSettings(
        hit_rate=_hit_rate(reader, default.hit_rate, lead),
        hold=reader.number("hold", default.hold, 0, 100),
        node_hold=reader.number("node_hold", default.node_hold, 0, 100),
        weeks=reader.whole_number("weeks", default.weeks, 0, 5),
        recurring_margin=reader.number("recurring_margin", default.recurring_margin, 0, 10),
        holiday_share=reader.number("holiday_share", default.holiday_share, 0, 1),
        zone=reader.zone("timezone", local_zone()),
        holidays=reader.days("holidays"),
        fill_nodes=reader.truth("fill_nodes", default=default.fill_nodes),
        calendar_margin=timedelta(minutes=margin),
    )
    starts = reader.number("node_starts_per_minute", 0, 0.01, 10_000)
    reader.refuse_other_keys()
    refuse_settings(reader.problems)
    return DemandOptions(settings, lead, starts or None)


def _hit_rate(reader: SettingsReader, default: float, lead: timedelta) -> float:
    """The configured hit rate, or the one that follows from the configured costs."""
    if reader.value("costs") is None:
        return reader.number("hit_rate", default, *_HIT_RATES)
    if reader.value("hit_rate") is not None:
        reader.refuse("hit_rate", "either hit_rate or costs")
    costs = reader.inner("costs", reader.value("costs"), 'a mapping like {"wait": 2, "idle_hour": 0.5}')
    for key in ("wait", "idle_hour"):
        costs.required(key, f"a number from {_COSTS[0]:g} to {_COSTS[1]:g}")
    wait, idle_hour = (costs.number(key, 1.0, *_COSTS) for key in ("wait", "idle_hour"))
    costs.refuse_other_keys()
    found = hit_rate_of_costs(wait, idle_hour, lead)
    if _HIT_RATES[0] <= found <= _HIT_RATES[1]:
        return found
    least, most = (f"{each:.2%}" for each in _HIT_RATES)
    costs.refuse_itself(f"costs with a hit rate of {found:.4%}", f"costs with a hit rate from {least} to {most}")
    return default


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
    SettingsError
        With path, found and allowed values of every problem.
    """
    problems: list[Problem] = []
    readers = readers_of_list(value, path, _MAX_ENTRIES, f"a mapping like {_AN_ENTRY}", problems)
    entries = [_calendar_entry(each, zone) for each in readers]
    refuse_settings(problems)
    return tuple(each for each in entries if each is not None)


def read_calendar_entry(value: object, zone: tzinfo, path: str) -> CalendarEntry:
    """One entry of a calendar, such as ``{"users": "350 of gpu-slice", "begins": "2026-11-24 17:00"}``.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    reader = SettingsReader(value, path, f"a mapping like {_AN_ENTRY}")
    entry = _calendar_entry(reader, zone)
    refuse_settings(reader.problems)
    assert entry is not None  # or it was refused
    return entry


def _calendar_entry(reader: SettingsReader, zone: tzinfo) -> CalendarEntry | None:
    if not reader.is_mapping:
        return None
    line, begins = 'a line like "350 of gpu-slice"', None
    demand = reader.checked("users", read_demand_line, line) if reader.required("users", line) else None
    if reader.required("begins", _TIME):
        begins = reader.checked("begins", _local_time, _TIME)
    lasts = timedelta(minutes=reader.number("minutes", 90, 1, 7 * 24 * 60))
    until = reader.checked("weekly_until", date.fromisoformat, DAY_ALLOWED)
    skipped = reader.days("skipped")
    own_zone = reader.zone("timezone", zone)
    # An administrator may write anything by the API; half a character would end each page that shows it.
    name = entry_name(reader.text("name"), reader.value("users"))
    reader.refuse_other_keys()
    if demand is None or begins is None:
        return None
    return CalendarEntry(name, demand, begins, lasts, own_zone, until, skipped)


def entry_name(name: str, users: object) -> str:
    """The name of an entry as one printable line; without a name, the line of its users."""
    return one_line(name, _LONGEST_NAME) or one_line(str(users), _LONGEST_NAME)


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
    SettingsError
        With path and allowed values of every problem. It shows no address, which may hold a secret.
    """
    calendars = SettingsReader(value, path, 'a mapping like {"physics": "https://calendar.example.org/physics.ics"}')
    found = []
    for name, each in calendars.given.items():
        settings = {"location": each} if isinstance(each, str) else each
        reader = calendars.inner(name, settings, 'a mapping like {"location": "/a/file.ics"}')
        location = reader.value("location")
        if not isinstance(location, str) or not location.startswith(("https://", "http://", "/")):
            allowed = "an address that begins with https:// or http://, or the path of a file"
            reader.refuse("location", allowed, "a text" if isinstance(location, str) else None)
            location = ""
        days = reader.number("longest_age_days", 7, 0.01, 366)
        found.append(CalendarLocation(str(name), location, reader.zone("timezone", zone), timedelta(days=days)))
        reader.refuse_other_keys()
    refuse_settings(calendars.problems)
    return tuple(found)


def _local_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError("the time zone has a setting of its own")
    if not _YEARS[0] <= moment.year <= _YEARS[1]:
        raise ValueError("times beyond the calendar cannot be compared")
    return moment


def local_zone(local_time: Path = Path("/etc/localtime")) -> tzinfo:
    """The zone that the variable TZ names, else the one of the system; UTC if neither names one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    _, _, of_system = str(local_time.resolve()).partition("/zoneinfo/")
    name = named or of_system
    if not name or name in ("UTC", "Etc/UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no name of a zone, such as a rule of POSIX
        return UTC
