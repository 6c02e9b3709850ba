"""A day of the thought experiment on a real control plane: waits are virtual, the schedulers' latencies real."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from dra_spawner.kube.cluster_watch import Change
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.placeholders.planner.autoscaler import Autoscaler, NodeGroup
from tests.placeholders.planner.day import Outcome, Schedule, Session, is_blocked
from tests.virtual_time.cluster_world import ClusterWorld

_A_MINUTE = timedelta(minutes=1)
#: A user who waits longer would wait for ever, and so would the test.
_LONGEST = timedelta(hours=3)


class ClusterDay(Schedule):
    """Lets a day pass with one of the systems.

    Parameters
    ----------
    report
        Called once an hour of the day.
    """

    def __init__(
        self,
        world: ClusterWorld,
        group: NodeGroup,
        users: Iterable[Session],
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__(Autoscaler(world, group), users)
        self.world = world
        self._report = report
        self._came: dict[str, datetime] = {}
        """Users who are present, with the times of their arrivals."""
        self._jumps: dict[str, int] = {}
        """How often the clock had jumped when a user came. It jumps when the cluster is at rest: a user that has no node
        by then waits for one, however slow the machine is."""
        self._lasts = {each.name: each.lasts for each in self._coming}
        self._on_node: dict[str, str] = {}
        """Users whose node lacks their image."""
        self._settles = self._reports = world.now
        world.watch.on_change(self._note)

    async def run(self, nodes: int = 1) -> Outcome:
        self.autoscaler.begin(nodes)
        await self.world.flush()
        while self._coming or self._came:
            await self._step(self._next_moment())
        end = self.world.now + timedelta(hours=1)
        while self.world.now < end:
            await self._step(min(end, self._next_moment()))
        return self._finish(self.world.evictions)

    def _next_moment(self) -> datetime:
        return min(super()._next_moment(), self._settles)

    async def _step(self, moment: datetime) -> None:
        world = self.world
        if await world.quiet.wait(until=lambda: world.now >= moment):
            self._look()
            world.clock.jump_to(moment)
        self.autoscaler.run()
        await world.flush()
        self._look_at_images()
        while name := self._next_leaving(world.now):
            del self._came[name]
            await world.leave(name)
        while arriving := self._next_arriving(world.now):
            self._came[arriving.name], self._jumps[arriving.name] = world.now, world.clock.jumps
            await world.arrive(arriving.name)
        if self._settles <= world.now:
            self._settles = world.now + _A_MINUTE
            await world.settle()
        self.outcome.max_nodes = max(self.outcome.max_nodes, self.autoscaler.nodes)
        if self._reports <= world.now:
            self._reports = world.now + timedelta(hours=1)
            self._report(f"{world.now:%H:%M} users={len(self._came)} nodes={self.autoscaler.nodes}")

    # --- progress of users --------------------------------------------------------------------------------------------

    def _note(self, change: Change) -> None:
        """Note that a user has a node."""
        name = change.key.name
        if change.kind is not Kind.POD or name not in self._came or name in self.outcome.waits or name in self._on_node:
            return
        pod = self.world.snapshot.pods.get(change.key)
        if pod is None or not pod.node_name:
            return
        if self._waits(name):
            self.outcome.for_node.add(name)
        if self.autoscaler.has_images(pod.node_name):
            self._begin(name)
        else:
            self.outcome.for_image.add(name)
            self._on_node[name] = pod.node_name

    def _look_at_images(self) -> None:
        for name, node in list(self._on_node.items()):
            if self.autoscaler.has_images(node):
                del self._on_node[name]
                self._begin(name)

    def _begin(self, name: str) -> None:
        now = self.world.now
        self.outcome.waits[name] = (now - self._came[name]).total_seconds()
        heapq.heappush(self._going, (now + self._lasts[name], name))

    def _waits(self, name: str) -> bool:
        """Whether a user without a node waits for one."""
        return self.world.clock.jumps > self._jumps[name]

    def _look(self) -> None:
        """Find waiting users whose pods only a placeholder blocks. The cluster is at rest now."""
        for name, came in self._came.items():
            if name in self.outcome.waits or name in self._on_node or not self._waits(name):
                continue
            self.outcome.for_node.add(name)
            assert self.world.now - came < _LONGEST, f"{name} gets no node"
            if is_blocked(self.world.snapshot, ObjectKey(self.world.namespace, name), self.autoscaler.has_images):
                self.outcome.blocked.add(name)
