"""A random day with calendar entries on a cluster with a scheduler and a reconciler: its rehearsal, and then what happens.

The clock jumps while nothing happens. `tests.scale_ahead.rehearsal.coming_day` has the same day without an API server.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dra_spawner.history.records import Launch
from dra_spawner.placeholders.controller.sources.target_source import ProfileGroup
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.controller.demand_settings import DemandOptions
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_slots import NodeSlots
from dra_spawner.scale_ahead.rehearsal.nodes.seen_nodes import SeenNodes
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import Rehearsal
from dra_spawner.simulator.model.claims import ObjectKey
from tests.placeholders.planner.autoscaler import Autoscaler
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.controller.following import KIND
from tests.scale_ahead.rehearsal.announced_day import AnnouncedDay, come
from tests.virtual_time.systems import Ours

_SOON = timedelta(seconds=10)
_A_MINUTE = timedelta(minutes=1)


class AnnouncedClusterDay:
    """See the module.

    Attributes
    ----------
    waited
        Users who had no node when nothing happened any more after they had come.
    """

    def __init__(self, world: Ours, day: AnnouncedDay) -> None:
        self.world = world
        self.day = day
        self.waited = 0
        settings = ScaleAheadSettings(day.mode, DemandOptions(node_lead=day.boot + day.pull))
        self._ahead = ScaleAhead(settings, CalendarBook(day.entries(START)))
        slots = NodeSlots(SeenNodes(KIND), KIND, world.namespace, (day.kind,))
        self._ahead.slots = lambda view, group: slots.of(view, world.shape, group.choices)
        self._group = ProfileGroup("gpu", world.shape.id, frozenset({"gpu"}), day.replicas)
        self._autoscaler = Autoscaler(world, day.node_group)
        self._configured = replace(world.policy, replicas={world.shape.id: day.replicas}, drain_below=-1.0)
        world.policy = self._configured

    async def run(self) -> list[Rehearsal]:
        """Let the day happen until its last user has come; returns what was rehearsed at its begin."""
        world, day = self.world, self.day
        self._autoscaler.begin(day.present)
        await world.flush()
        await self._rest()
        for number in range(day.running):
            await self._arrive(f"running-{number}")
        await self._rest()
        assert world.now < START
        world.clock.jump_to(START)
        self._ahead.begin(START - _A_MINUTE)
        rehearsed = day.rehearse(START, world.shape, world.reconciler.view(), world.namespace)
        coming, minute, look = list(enumerate(come(rehearsed))), START, START
        while coming:
            if world.now >= minute:
                minute += _A_MINUTE
                await self._advance()
            if day.has_autoscaler and self._autoscaler.run():
                await world.flush()
                await self._rest()
            came = []
            while coming and coming[0][1] <= world.now:
                came.append(f"user-{coming.pop(0)[0]}")
                await self._arrive(came[-1])
            if came:
                await self._rest()
                self.waited += sum(not world.snapshot.pods[ObjectKey(world.namespace, each)].node_name for each in came)
                look = world.now + _SOON  # the autoscaler looks at the pods that are pending now
            world.clock.jump_to(self._next_moment([minute, look, *(at for _, at in coming[:1])]))
        return rehearsed

    def _next_moment(self, moments: list[datetime]) -> datetime:
        moments += self._autoscaler.node_events() if self.day.has_autoscaler else ()
        return min((each for each in moments if each > self.world.now), default=self.world.now)

    async def _advance(self) -> None:
        """Make the forecast of a minute; the reconciler follows it."""
        world, shape = self.world, self.world.shape.id
        self._ahead.advance(world.reconciler.view(), (self._group,), KIND)
        before = world.policy.replicas[shape]
        ranges = {**self._configured.replicas, **self._ahead.ranges((self._group,))}
        world.policy = replace(self._configured, replicas=ranges, keeps_surplus=self._ahead.keeps_surplus)
        if ranges[shape].min != before.min:
            await self._rest()

    async def _arrive(self, name: str) -> None:
        self._ahead.record(Launch(name, self.world.now, "gpu", "gpu"))
        await self.world.arrive(name)

    async def _rest(self) -> None:
        """Wait until the reconciler has decided, and nothing happens any more."""
        await self.world.settle()
        await self.world.quiet.wait()
