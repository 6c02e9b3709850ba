"""A world whose targets follow demand, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.history.records import Launch
from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from dra_spawner.scale_ahead.calendars.demand_lines import read_demand_line
from dra_spawner.scale_ahead.calendars.entries import CalendarEntry
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions, ScaleAheadMode
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings
from dra_spawner.scale_ahead.demand.policies import DemandPolicy
from dra_spawner.scale_ahead.rehearsal.nodes.node_slots import NodeSlots
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNodes
from tests.placeholders.planner.objects import GPU, NAMESPACE
from tests.placeholders.planner.world import World

KIND = "node.kubernetes.io/instance-type"
LEAD = timedelta(minutes=10)


def entry(line: str, begins: datetime, name: str = "physics", minutes: float = 60) -> CalendarEntry:
    demand, zone = read_demand_line(line), UTC
    return CalendarEntry(name, demand, begins.replace(tzinfo=None), timedelta(minutes=minutes), zone)


class Following:
    """A world whose targets follow demand."""

    def __init__(
        self,
        *entries: CalendarEntry,
        mode: ScaleAheadMode = ScaleAheadMode.ACT,
        replicas: ReplicaRange | None = None,
        policies: dict[str, DemandPolicy] | None = None,
        sources: Iterable[CalendarSource] = (),
    ) -> None:
        settings = ScaleAheadSettings(mode, DemandOptions(node_lead=LEAD), policies or {})
        self.ahead = ScaleAhead(settings, CalendarBook(entries, sources))
        self.slots = NodeSlots(SeenNodes(KIND), KIND, NAMESPACE)
        self.ahead.slots = lambda view, group: self.slots.of(view, GPU, group.choices)
        self.replicas = replicas or ReplicaRange(1, 40)
        self.configured = Policy(shapes={GPU.id: GPU}, replicas={GPU.id: self.replicas}, drain_below=-1.0)
        self.world = World(self.configured)
        self._numbers = itertools.count()
        self.ahead.begin(self.world.now)

    @property
    def groups(self) -> tuple[ProfileGroup, ...]:
        return (ProfileGroup("gpu", GPU.id, frozenset({"gpu", "gpu/image=a"}), self.replicas),)

    @property
    def target(self) -> int:
        return self.ahead.forecasts["gpu"].target

    def advance(self) -> bool:
        made = self.ahead.advance(self.world.view(), self.groups, KIND)
        ranges = {**self.configured.replicas, **self.ahead.ranges(self.groups)}
        self.world.policy = replace(self.configured, replicas=ranges, keeps_surplus=self.ahead.keeps_surplus)
        return made

    def minutes(self, count: int) -> list[int]:
        """Targets, one a minute: minutes pass, each with a forecast and its decisions."""
        targets = []
        for _ in range(count):
            self.world.pass_time(minutes=1)
            self.advance()
            self.world.run(0.5, every_seconds=10)
            self.world.now = self.world.now.replace(second=0)
            targets.append(self.target)
        return targets

    def launch(self, **changes: Any) -> None:
        at = self.world.now
        self.ahead.record(replace(Launch(f"launch-{next(self._numbers)}", at, "gpu", "gpu"), **changes))

    @property
    def placeholders(self) -> int:
        return self.world.count
