"""Settings of scale-ahead: accepted, or refused with the path, the value found and the values allowed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from traitlets import TraitError

from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.scale_ahead.calendars.occurrences import IN_TOTAL
from dra_spawner.scale_ahead.controller.demand_settings import (
    CalendarLocation,
    ScaleAheadMode,
    local_zone,
    read_calendar_entries,
    read_calendar_entry,
    read_calendars,
    read_demand,
)
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.service.application import DRASpawnerService
from tests.all_of_them import all_of_them
from tests.placeholders.controller.refusals import refusal, wrong_refusals

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


def test_costs_that_are_refused() -> None:
    rows: tuple[tuple[Any, str], ...] = (
        ({"costs": {"wait": 1, "idle_hour": 1}, "hit_rate": 0.9}, ".hit_rate: found 0.9; allowed: either hit_rate or costs"),
        ({"costs": 3}, '.costs: found 3; allowed: a mapping like {"wait": 2, "idle_hour": 0.5}'),
        ({"costs": {"wait": 1}}, ".costs.idle_hour: nothing found; allowed: a number from 1e-06 to 1e+06"),
        ({"costs": {"wait": -1, "idle_hour": 1}}, ".costs.wait: found -1; allowed: a number from 1e-06 to 1e+06"),
        (
            {"costs": {"wait": 1, "idle_hour": 60}},
            ".costs: found costs with a hit rate of 9.0909%; allowed: costs with a hit rate from 50.00% to 99.99%",
        ),
        ({"costs": {"wait": 1, "idle_hour": 1, "idle": 1}}, ".costs.idle: found 'idle'; allowed: the keys wait, idle_hour"),
    )  # fmt: skip
    found = {problem: refusal(read_demand, value) for value, problem in rows}
    assert found == {problem: f"demand{problem}" for problem in found}


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


@all_of_them(
    "variable, system, zone",
    [
        ("Europe/Berlin", "UTC", BERLIN),
        (":Europe/Berlin", "UTC", BERLIN),
        ("", "Europe/Berlin", BERLIN),
        ("", "Etc/UTC", UTC),
        ("UTC", "Europe/Berlin", UTC),
        ("CET-1CEST", "UTC", UTC),
        ("../secret", "UTC", UTC),
        ("", "", UTC),
    ],
)
def test_without_a_time_zone_that_of_the_hub_counts(variable: str, system: str, zone: tzinfo) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setenv("TZ", variable)
        local_time = Path(directory, "localtime")
        if system:
            local_time.symlink_to(f"/usr/share/zoneinfo/{system}")
        assert local_zone(local_time) == zone
        if variable:
            assert read_demand({}).settings.zone == zone


def test_the_name_of_an_entry_is_one_printable_line() -> None:
    """With half a character, no page that shows it could be written; other ones turn the line around or break it."""
    names = ["\ud800", "a\nb", "a\0b", "a\u202eb", "\u200b", " ", "", "Größe \N{PARTY POPPER}", "x" * 250]
    found = []
    for name in names:
        written = {"name": name, "users": "3\nof gpu", "begins": "2026-11-30 10:00"}
        found.append(read_calendar_entry(written, ZoneInfo("Europe/Berlin"), "entry").name)
    assert all(each.isprintable() for each in found), found
    assert found[1] == "a b"
    assert found[5:] == ["3 of gpu", "3 of gpu", *names[7:]]


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


AN_ENTRY = {"users": "9 of a", "begins": "2026-11-24 17:00"}
ETC = "../../etc/passwd"
REFUSED: dict[str, tuple[Callable[[Any], object], tuple[tuple[Any, str], ...]]] = {
    "demand": (
        read_demand,
        (
            ([], ': found []; allowed: a mapping like {"timezone": "Europe/Berlin"}'),
            ({"hit_rate": 1}, ".hit_rate: found 1; allowed: a number from 0.5 to 0.9999"),
            ({"weeks": True}, ".weeks: found True; allowed: a whole number from 0 to 5"),
            ({"timezone": ETC}, f".timezone: found '{ETC}'; allowed: a time zone like \"Europe/Berlin\""),
            ({"timezone": "Nowhere/Land"}, ".timezone: found 'Nowhere/Land'"),
            ({"timezone": 3}, ".timezone: found 3"),
            ({"fill_nodes": 1}, ".fill_nodes: found 1; allowed: true or false"),
            ({"holidays": "2026-12-25"}, ".holidays: found '2026-12-25'; allowed: a list of days"),
            ({"holidays": ["25.12."]}, ".holidays[0]: found '25.12.'; allowed: a day like"),
            ({"node_lead_minutes": float("nan")}, ".node_lead_minutes: found nan"),
            ({"hitrate": 0.9}, ".hitrate: found 'hitrate'; allowed: the keys node_lead_minutes"),
        ),
    ),
    "calendar_entries": (
        lambda each: read_calendar_entries(each, UTC),
        (
            ({"a": 1}, ": found {'a': 1}; allowed: a list of at most 1000 entries"),
            ([3], "[0]: found 3; allowed: a mapping like"),
            ([{"begins": AN_ENTRY["begins"]}], "[0].users: nothing found; allowed"),
            ([{"users": "9 of a"}], "[0].begins: nothing found; allowed: a local time"),
            (
                [{**AN_ENTRY, "users": "many of a"}],
                "[0].users: found 'many of a'; allowed: a line like \"350 of gpu-slice\"",
            ),
            (
                [{**AN_ENTRY, "begins": "2026-11-24T17:00+01:00"}],
                "[0].begins: found '2026-11-24T17:00+01:00'; allowed: a local time",
            ),
            ([{**AN_ENTRY, "minutes": 0}], "[0].minutes: found 0; allowed: a number from 1 to 10080"),
        ),
    ),
    "calendars": (
        lambda each: read_calendars(each, UTC),
        (
            (["a"], ": found ['a']; allowed: a mapping like"),
            ({"a": "relative.ics"}, ".a.location: found a text; allowed: an address that begins with"),
            ({"a": 3}, ".a: found 3; allowed: a mapping like"),
            ({"a": {"location": "/a", "zone": "x"}}, ".a.zone: found 'zone'; allowed: the keys"),
        ),
    ),
}


@pytest.mark.parametrize("setting", REFUSED)
def test_refused(setting: str) -> None:
    read, rows = REFUSED[setting]
    assert wrong_refusals(read, ((value, f"{setting}{problem}") for value, problem in rows)) == {}
    for value, _ in rows:
        with pytest.raises(TraitError):
            DRASpawnerService(**{setting: value})


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(TraitError):
        DRASpawnerService(scale_ahead="maybe")


def test_no_address_of_a_calendar_is_shown() -> None:
    message = refusal(lambda each: read_calendars(each, UTC), {"a": "webcal://example.org/secret-token.ics"})
    assert message
    assert "secret-token" not in message


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
