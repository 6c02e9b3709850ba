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

_A_MINUTE = timedelta(minutes=1)
#: Time after which a user who has no node waits for one: shorter than the autoscaler's time between two looks.
_SOON = timedelta(seconds=5)


class AnnouncedClusterDay:
    """See the module.

    Attributes
    ----------
    waited
        Users who had no node five seconds after they came.
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
        if day.has_autoscaler:
            # It looks all the time, and nodes count as empty since the rehearsal.
            self._autoscaler.unneeded += START - world.now
            self._autoscaler.run()
        world.clock.jump_to(START)
        self._ahead.begin(START - _A_MINUTE)
        rehearsed = day.rehearse(START, world.shape, world.reconciler.view(), world.namespace)
        coming, minute, came = list(enumerate(come(rehearsed))), START, dict[str, datetime]()
        while coming or came:
            if world.now >= minute:
                minute += _A_MINUTE
                await self._advance()
            while day.has_autoscaler and self._autoscaler.run():
                await world.flush()
                await self._rest()
            for name in [name for name, at in came.items() if world.now - at >= _SOON]:
                del came[name]
                self.waited += not world.snapshot.pods[ObjectKey(world.namespace, name)].node_name
            count = len(came)
            while coming and coming[0][1] <= world.now:
                name = f"user-{coming.pop(0)[0]}"
                came[name] = world.now
                await self._arrive(name)
            if len(came) > count:
                await self._rest()
            moments = [minute, *(at + _SOON for at in came.values()), *(at for _, at in coming[:1])]
            world.clock.jump_to(self._next_moment(moments))
        return rehearsed

    def _next_moment(self, moments: list[datetime]) -> datetime:
        """The next moment at which something happens; now, if something was due while the cluster came to rest."""
        now = self.world.now
        moments = [each for each in moments if each > now]
        if self.day.has_autoscaler:
            due = self._autoscaler.node_events()
            moments += due + [each for each in self._autoscaler.moments() if each > now]
        return max(min(moments, default=now), now)

    async def _advance(self) -> None:
        """Make the forecast of a minute; the reconciler follows it."""
        world, shape = self.world, self.world.shape.id
        self._ahead.advance(world.reconciler.view(), (self._group,), KIND)
        before = world.policy.replicas[shape]
        ranges = {**self._configured.replicas, **self._ahead.ranges((self._group,))}
        world.policy = replace(self._configured, replicas=ranges, keeps_surplus=self._ahead.keeps_surplus)
        if ranges[shape] != before:
            await self._rest()

    async def _arrive(self, name: str) -> None:
        self._ahead.record(Launch(name, self.world.now, "gpu", "gpu"))
        await self.world.arrive(name)

    async def _rest(self) -> None:
        """Wait until the reconciler has decided, and nothing happens any more."""
        await self.world.settle()
        await self.world.quiet.wait()
