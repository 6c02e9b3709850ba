"""Settings of the service about scale-ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traitlets import Bool, Dict, Enum, HasTraits, List, validate

from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from dra_spawner.scale_ahead.controller.demand_settings import (
    ScaleAheadMode,
    read_calendar_entries,
    read_calendars,
    read_demand,
)
from dra_spawner.scale_ahead.controller.policy_settings import read_policies
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings
from dra_spawner.service.traits.checked_traits import SecretDict, checked
from dra_spawner.service.traits.node_kind_settings import read_node_kinds


class DemandTraits(HasTraits):
    """Mixed into the application."""

    scale_ahead = Enum(
        [each.value for each in ScaleAheadMode],
        default_value=ScaleAheadMode.ADVISE.value,
        help="""
        What the service does with forecasts of demand (docs/explanation/scale-ahead.md).
        `observe`: only metrics show them. `advise`: the page and `api/forecasts` also show the number of
        placeholders that they advise. `act`: this number is the target, between `min` and `max` of `placeholders`.
        """,
    ).tag(config=True)

    demand = Dict(
        help="""
        How forecasts are made. Only your time zone needs to be set::

            c.DRASpawnerService.demand = {"timezone": "Europe/Berlin", "hit_rate": 0.99, "holidays": ["2026-12-25"]}

        `hit_rate`: share of launches that should find a warm placeholder; or `costs`, from which it follows:
        `{"wait": 5, "idle_hour": 0.4}`. `node_lead_minutes`: assumed time from the order of a node until it is open to
        users, until times of real nodes are known. `node_starts_per_minute`: limit of new nodes in a minute;
        by default that of `node_kinds`.
        `calendar_margin_minutes`: time before an entry at which its placeholders are warm. `weeks`, `hold`,
        `node_hold`, `recurring_margin`, `holiday_share`, `fill_nodes`: see docs/explanation/scale-ahead.md.
        """
    ).tag(config=True)

    calendar_entries = List(
        help="""
        Times at which you expect more users than usual, in local time::

            c.DRASpawnerService.calendar_entries = [
                {"users": "350 of gpu-slice within 15 min", "begins": "2026-11-24 17:00", "weekly_until": "2027-02-09"}
            ]

        `users`: with "in total" if the number includes servers that run already. `minutes`: duration (90).
        `skipped`: days on which a weekly entry does not take place. `timezone`: if it is not that of `demand`. `name`:
        a title, for people.
        """
    ).tag(config=True)

    calendars = SecretDict(
        help="""
        iCal calendars by name: an address or a file. Each line like `200 of gpu-slice` in the title or description of
        an event announces users::

            c.DRASpawnerService.calendars = {"physics": "https://calendar.example.org/physics.ics"}

        A mapping has more settings: `location`, `timezone`, and `longest_age_days`: the age until which the last good
        copy counts (7).
        """
    ).tag(config=True)

    demand_policies = SecretDict(
        help="""
        Rules that replace the forecast's number of placeholders (docs/reference/demand-policies.md). For each
        choice, as in `placeholders`, or `*` for all others: a policy, or a list of policies. The first policy
        that applies counts::

            c.DRASpawnerService.demand_policies = {"*": {"kind": "percent", "percent": 20, "min": 1}}
        """
    ).tag(config=True)

    node_kinds = List(
        help="""
        Kinds of nodes that the autoscaler can add, for rehearsals, in the form of `nodes:` in the file of
        `dra-spawner rehearse` (docs/how-to/rehearsal.md). Then no other kinds count. Without the setting, present and
        past kinds count, with the devices of their nodes::

            c.DRASpawnerService.node_kinds = [
                {"name": "a100", "slots": 8, "lead_minutes": [6, 8, 9], "image_minutes": 2, "max_nodes": 60,
                 "labels": {"hub.jupyter.org/node-pool": "a100"}}
            ]

        `slots`: servers on a node, which count while no node proves them. `lead_minutes`: from the order of a node
        until it has its devices. Further keys: `profiles`, `starts_per_minute`.
        """
    ).tag(config=True)

    autoscaler = Bool(
        False,
        help="""
        Whether an autoscaler adds nodes of the kinds in `node_kinds`, up to their `max_nodes`. Without it, users are
        told that another machine is added only while one was added for a pending server in the last seven days.
        """,
    ).tag(config=True)

    @validate("demand", "demand_policies", "calendar_entries", "calendars", "node_kinds")
    def _validate_demand(self, proposal: Any) -> Any:
        readers: dict[str, Callable[[Any], object]] = {
            "demand": read_demand,
            "demand_policies": read_policies,
            "calendar_entries": lambda value: read_calendar_entries(value, read_demand({}).settings.zone),
            "calendars": lambda value: read_calendars(value, read_demand({}).settings.zone),
            "node_kinds": read_node_kinds,
        }
        return checked(proposal, readers[proposal["trait"].name])

    def new_scale_ahead(self) -> ScaleAhead:
        """Scale-ahead with these settings."""
        options = read_demand(self.demand)
        zone = options.settings.zone
        settings = ScaleAheadSettings(ScaleAheadMode(self.scale_ahead), options, read_policies(self.demand_policies))
        sources = [
            CalendarSource(each.name, each.location, each.zone, longest_age=each.longest_age)
            for each in read_calendars(self.calendars, zone)
        ]
        return ScaleAhead(settings, CalendarBook(read_calendar_entries(self.calendar_entries, zone), sources))
