"""Settings of scale-ahead: accepted, or refused with the path, the value found and the values allowed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from traitlets import TraitError

from dra_spawner.calendars.occurrences import IN_TOTAL
from dra_spawner.placeholders.controller.demand_settings import (
    CalendarLocation,
    ScaleAheadMode,
    read_calendar_entries,
    read_calendars,
    read_demand,
)
from dra_spawner.placeholders.planner.demand.settings import DemandSettings
from dra_spawner.profiles.settings_reader import SettingsError
from dra_spawner.service.application import DRASpawnerService

BERLIN = ZoneInfo("Europe/Berlin")


def test_without_settings() -> None:
    options = read_demand({})
    assert options.settings == DemandSettings()
    assert (options.node_lead, options.node_starts_per_minute) == (timedelta(minutes=10), None)
    ahead = DRASpawnerService().new_scale_ahead()
    assert ahead.settings.mode is ScaleAheadMode.ADVISE
    assert (ahead.calendars.entries, ahead.calendars.sources) == ((), ())


def test_a_hit_rate_from_costs() -> None:
    """A wait costs as much as 50 hours of an idle placeholder, and a placeholder is idle for one lead time."""
    costs = {"wait": 5, "idle_hour": 0.1}
    assert read_demand({"costs": costs, "node_lead_minutes": 12}).settings.hit_rate == pytest.approx(5 / 5.02)
    assert read_demand({"costs": costs, "node_lead_minutes": 120}).settings.hit_rate == pytest.approx(5 / 5.2)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"costs": {"wait": 1, "idle_hour": 1}, "hit_rate": 0.9}, "demand.hit_rate: found 0.9; allowed: either hit_rate or costs"),
        ({"costs": 3}, 'demand.costs: found 3; allowed: a mapping like {"wait": 2, "idle_hour": 0.5}'),
        ({"costs": {"wait": 1}}, "demand.costs.idle_hour: nothing found; allowed: a number from 1e-06 to 1e+06"),
        ({"costs": {"wait": -1, "idle_hour": 1}}, "demand.costs.wait: found -1; allowed: a number from 1e-06 to 1e+06"),
        ({"costs": {"wait": 1, "idle_hour": 60}}, "demand.costs: found costs with a hit rate of 9.0909%; allowed: costs with a hit rate from 50.00% to 99.99%"),
        ({"costs": {"wait": 1, "idle_hour": 1, "idle": 1}}, "demand.costs.idle: found 'idle'; allowed: the keys wait, idle_hour"),
    ],
)  # fmt: skip
def test_costs_that_are_refused(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_demand(value)
    assert str(refused.value) == problem


def test_all_settings() -> None:
    options = read_demand(
        {
            "hit_rate": 0.95,
            "hold": 2,
            "node_hold": 1.5,
            "weeks": 2,
            "recurring_margin": 0.2,
            "holiday_share": 0,
            "timezone": "Europe/Berlin",
            "holidays": ["2026-12-25"],
            "fill_nodes": True,
            "calendar_margin_minutes": 10,
            "node_lead_minutes": 4.5,
            "node_starts_per_minute": 5,
        }
    )
    assert options.settings == DemandSettings(
        hit_rate=0.95,
        hold=2,
        node_hold=1.5,
        weeks=2,
        recurring_margin=0.2,
        holiday_share=0,
        zone=BERLIN,
        holidays=frozenset({date(2026, 12, 25)}),
        fill_nodes=True,
        calendar_margin=timedelta(minutes=10),
    )
    assert (options.node_lead, options.node_starts_per_minute) == (timedelta(minutes=4.5), 5)


def test_calendar_entries() -> None:
    weekly, once = read_calendar_entries(
        [
            {
                "users": "350 of gpu-slice within 20 min",
                "begins": "2026-11-24 17:00",
                "minutes": 45,
                "weekly_until": "2027-02-09",
                "skipped": ["2026-12-29"],
                "name": "physics",
            },
            {"users": "20 of cpu in total", "begins": "2026-11-24T17:00", "timezone": "UTC"},
        ],
        BERLIN,
    )
    assert (weekly.name, weekly.demand.users, weekly.lasts) == ("physics", 350, timedelta(minutes=45))
    assert (weekly.zone, weekly.weekly_until) == (BERLIN, date(2027, 2, 9))
    assert weekly.skipped == {date(2026, 12, 29)}
    assert (once.name, once.demand.counts, once.begins) == ("20 of cpu in total", IN_TOTAL, datetime(2026, 11, 24, 17))
    assert str(once.zone) == str(UTC)


def test_calendars() -> None:
    assert read_calendars(
        {"a": "https://example.org/a.ics", "b": {"location": "/b.ics", "timezone": "UTC", "longest_age_days": 1}},
        BERLIN,
    ) == (
        CalendarLocation("a", "https://example.org/a.ics", BERLIN),
        CalendarLocation("b", "/b.ics", ZoneInfo("UTC"), timedelta(days=1)),
    )


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("demand", [], 'demand: found []; allowed: a mapping like {"timezone": "Europe/Berlin"}'),
        ("demand", {"hit_rate": 1}, "demand.hit_rate: found 1; allowed: a number from 0.5 to 0.9999"),
        ("demand", {"weeks": True}, "demand.weeks: found True; allowed: a whole number from 0 to 5"),
        (
            "demand",
            {"timezone": "../../etc/passwd"},
            "demand.timezone: found '../../etc/passwd'; allowed: a time zone like \"Europe/Berlin\"",
        ),
        ("demand", {"timezone": "Nowhere/Land"}, "demand.timezone: found 'Nowhere/Land'"),
        ("demand", {"timezone": 3}, "demand.timezone: found 3"),
        ("demand", {"fill_nodes": 1}, "demand.fill_nodes: found 1; allowed: true or false"),
        ("demand", {"holidays": "2026-12-25"}, "demand.holidays: found '2026-12-25'; allowed: a list of days"),
        ("demand", {"holidays": ["25.12."]}, "demand.holidays[0]: found '25.12.'; allowed: a day like"),
        ("demand", {"node_lead_minutes": float("nan")}, "demand.node_lead_minutes: found nan"),
        ("demand", {"hitrate": 0.9}, "demand.hitrate: found 'hitrate'; allowed: the keys node_lead_minutes"),
        ("calendar_entries", {"a": 1}, "calendar_entries: found {'a': 1}; allowed: a list of at most 1000 entries"),
        ("calendar_entries", [3], "calendar_entries[0]: found 3; allowed: a mapping like"),
        ("calendar_entries", [{"begins": "2026-11-24 17:00"}], "calendar_entries[0].users: nothing found; allowed"),
        ("calendar_entries", [{"users": "9 of a"}], "calendar_entries[0].begins: nothing found; allowed: a local time"),
        (
            "calendar_entries",
            [{"users": "many of a", "begins": "2026-11-24 17:00"}],
            "calendar_entries[0].users: found 'many of a'; allowed: a line like \"350 of gpu-slice\"",
        ),
        (
            "calendar_entries",
            [{"users": "9 of a", "begins": "2026-11-24T17:00+01:00"}],
            "calendar_entries[0].begins: found '2026-11-24T17:00+01:00'; allowed: a local time",
        ),
        (
            "calendar_entries",
            [{"users": "9 of a", "begins": "2026-11-24 17:00", "minutes": 0}],
            "calendar_entries[0].minutes: found 0; allowed: a number from 1 to 10080",
        ),
        ("calendars", ["a"], "calendars: found ['a']; allowed: a mapping like"),
        (
            "calendars",
            {"a": "relative.ics"},
            "calendars.a.location: found a text; allowed: an address that begins with",
        ),
        ("calendars", {"a": 3}, "calendars.a: found 3; allowed: a mapping like"),
        ("calendars", {"a": {"location": "/a", "zone": "x"}}, "calendars.a.zone: found 'zone'; allowed: the keys"),
    ],
)
def test_refused(setting: str, value: Any, problem: str) -> None:
    readers: dict[str, Callable[[Any], object]] = {
        "demand": read_demand,
        "calendar_entries": lambda each: read_calendar_entries(each, UTC),
        "calendars": lambda each: read_calendars(each, UTC),
    }
    with pytest.raises(SettingsError) as refused:
        readers[setting](value)
    assert str(refused.value).startswith(problem)
    with pytest.raises(TraitError):
        DRASpawnerService(**{setting: value})


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(TraitError):
        DRASpawnerService(scale_ahead="maybe")


def test_no_address_of_a_calendar_is_shown() -> None:
    with pytest.raises(SettingsError) as refused:
        read_calendars({"a": "webcal://example.org/secret-token.ics"}, UTC)
    assert "secret-token" not in str(refused.value)


def test_all_problems_at_once() -> None:
    entries = [{"users": "x", "begins": "y", "minutes": -1, "colour": "red"}, {}]
    with pytest.raises(SettingsError) as refused:
        read_calendar_entries(entries, UTC)
    paths = [each.path for each in refused.value.problems]
    assert paths == [
        "calendar_entries[0].users",
        "calendar_entries[0].begins",
        "calendar_entries[0].minutes",
        "calendar_entries[0].colour",
        "calendar_entries[1].users",
        "calendar_entries[1].begins",
    ]
