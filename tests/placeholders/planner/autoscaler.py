"""A stand-in for cluster-autoscaler, in virtual time, with the behaviour that matters to placeholders.

Its loop runs every ten seconds. Up: pending pods with a priority of at least the cutoff, which fit neither on existing
nodes nor on ordered ones, get new nodes if they would fit on the group's template node. That has devices, but no label
that others put on nodes later. Down: nodes used less than half for ten minutes, whose pods are all evictable and
fit on other nodes. A node is unready, and counts as ordered, until its devices are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, Protocol

from dra_spawner import names
from dra_spawner.simulator.model.claims import TrackedClaim
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.simulator.changes import take_down_node


class Cluster(Protocol):
    """The autoscaler's view of a cluster: the simulator's world, or a real control plane."""

    @property
    def now(self) -> datetime: ...

    @property
    def snapshot(self) -> Snapshot: ...

    def node(self, name: str, cpu: str = ..., gpus: int = ..., memory: str = ..., images: Iterable[str] = ...) -> None:
        """Add a node."""

    def slice(self, node: str, gpus: int, memory: str = ...) -> None:
        """Publish a node's devices."""

    def pull(self, node: str) -> None:
        """Give a node the images."""

    def remove_node(self, name: str) -> None:
        """Remove a node, with its pods."""

    def pending_pods(self) -> list[Pod]:
        """Pods that have no node."""

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        """The pod and claims that would be created if a placeholder were deleted."""

    def node_objects(self, name: str, cpu: str, gpus: int, memory: str, images: Iterable[str]) -> list[Json]:
        """A node of the group, as the autoscaler would add it."""


Json = dict[str, Any]

_CUTOFF = -10
_TEMPLATE = "template-"


@dataclass(frozen=True)
class NodeGroup:
    """The nodes that the autoscaler can add, and how long that takes.

    Attributes
    ----------
    boot
        From the order to a node that accepts pods.
    publish
        From then until the devices are published.
    pull
        From then until the images are pulled.
    starts_per_minute
        Orders in a minute at most; None if unlimited.
    """

    cpu: str = "10"
    gpus: int = 0
    memory: str = ""
    least: int = 1
    most: int = 50
    boot: timedelta = timedelta(minutes=5)
    publish: timedelta = timedelta(seconds=20)
    pull: timedelta = timedelta(minutes=3)
    starts_per_minute: int | None = None


class Autoscaler:
    """See the module. `run` is called as time passes; it makes and removes nodes of the world."""

    every = timedelta(seconds=10)
    unneeded = timedelta(minutes=10)
    after_adding = timedelta(minutes=10)
    threshold = 0.5

    def __init__(self, world: Cluster, group: NodeGroup) -> None:
        self._world = world
        self._group = group
        self._number = 0
        self._last_look = world.now - self.every
        self._last_added = world.now - self.after_adding
        self._ordered: dict[str, datetime] = {}
        self._published: dict[str, datetime] = {}
        self._pulled: dict[str, datetime] = {}
        self._idle_since: dict[str, datetime] = {}
        self._seen: set[str] = set()
        self.ordered_at: dict[str, datetime] = {}
        """Moments of all orders, by node."""
        self.complete_at: dict[str, datetime] = {}
        """Moments at which ordered nodes had devices and images."""
        self.node_seconds = 0.0
        self._counted = world.now

    # --- what can be seen ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """Nodes that are paid for."""
        return len(self._ordered) + len(self._world.snapshot.nodes)

    def has_images(self, node: str) -> bool:
        return node not in self._pulled

    def next_event(self) -> datetime:
        """When something happens by itself, at the latest."""
        return min([self._last_look + self.every, *self.node_events()])

    def node_events(self) -> list[datetime]:
        """When nodes come, and get their devices and images."""
        return [*self._ordered.values(), *self._published.values(), *self._pulled.values()]

    def moments(self) -> Iterator[datetime]:
        """When it does something: nodes come, it looks at pods that it has not seen, and its limit of starts is over."""
        yield from self.node_events()
        if any(pod.name not in self._seen for pod in self._world.pending_pods()):
            yield self._last_look + self.every
        if self._group.starts_per_minute is not None:
            yield from (at + timedelta(minutes=1) + self.every for at in self.ordered_at.values())

    # --- what happens ----------------------------------------------------------------------------------------------------

    def begin(self, count: int = 1) -> None:
        """Nodes that exist from the beginning, with devices and images."""
        for _ in range(count):
            name = self._new_name()
            self._world.node(name, cpu=self._group.cpu, gpus=self._group.gpus, memory=self._group.memory)

    def run(self) -> bool:
        """Do everything that is due; returns whether anything happened."""
        now = self._world.now
        self.node_seconds += self.nodes * (now - self._counted).total_seconds()
        self._counted = now
        happened = [self._boot(name) for name in _due(self._ordered, now)]
        happened += [self._publish(name) for name in _due(self._published, now)]
        happened += [self._pull(name) for name in _due(self._pulled, now)]
        if not happened and now - self._last_look >= self.every:  # otherwise new objects are looked at first
            self._last_look = now
            happened += self._scale_up()
            happened += self._scale_down()
        return bool(happened)

    def _new_name(self) -> str:
        self._number += 1
        return f"node-{self._number:03}"

    def _boot(self, name: str) -> str:
        del self._ordered[name]
        self._world.node(name, cpu=self._group.cpu, images=())
        if self._group.gpus:
            self._published[name] = self._world.now + self._group.publish
        self._pulled[name] = self._world.now + self._group.pull
        return name

    def _publish(self, name: str) -> str:
        del self._published[name]
        self._world.slice(name, self._group.gpus, self._group.memory)
        return name

    def _pull(self, name: str) -> str:
        del self._pulled[name]
        self.complete_at[name] = self._world.now
        self._world.pull(name)
        return name

    # --- more nodes ------------------------------------------------------------------------------------------------------

    def _scale_up(self) -> list[str]:
        world, snapshot = self._world, self._world.snapshot
        pending = [pod for pod in world.pending_pods() if pod.priority >= _CUTOFF and not pod.is_gated]
        self._seen = {pod.name for pod in world.pending_pods()}
        if not pending:
            return []
        ordered, allowed = 0, self._starts_allowed()
        there = self.nodes  # without the template nodes of the trial
        with snapshot.trial():
            templates = [self._add_template(number) for number in range(len(self._ordered) + len(self._published))]
            unready = set(self._published)
            for pod in sorted(pending, key=lambda pod: (-pod.priority, pod.created, pod.name)):
                names = [name for name in (*snapshot.nodes,) if name not in unready]
                if any(snapshot.schedule(pod, name).fits for name in names):
                    continue
                if there + ordered >= self._group.most or ordered >= allowed:
                    break
                snapshot.fork()
                name = self._add_template(len(templates))
                if snapshot.schedule(pod, name).fits:
                    snapshot.commit()
                    templates.append(name)
                    ordered += 1
                else:
                    snapshot.revert()
        names = [self._new_name() for _ in range(ordered)]
        for name in names:
            self._ordered[name] = world.now + self._group.boot
            self._last_added = self.ordered_at[name] = world.now
        return names

    def _starts_allowed(self) -> float:
        if self._group.starts_per_minute is None:
            return inf
        since = self._world.now - timedelta(minutes=1)
        return self._group.starts_per_minute - sum(at > since for at in self.ordered_at.values())

    def _add_template(self, number: int) -> str:
        name = f"{_TEMPLATE}{number}"
        for obj in self._world.node_objects(name, self._group.cpu, self._group.gpus, self._group.memory, images=()):
            self._world.snapshot.apply(obj)
        return name

    # --- fewer nodes -----------------------------------------------------------------------------------------------------

    def _scale_down(self) -> list[str]:
        world, snapshot, now = self._world, self._world.snapshot, self._world.now
        if self._ordered or now - self._last_added < self.after_adding:
            self._idle_since.clear()
            return []
        unneeded = {name: state for name, state in snapshot.nodes.items() if self._is_unneeded(state)}
        self._idle_since = {name: self._idle_since.get(name, now) for name in unneeded}
        gone: list[str] = []
        for name, state in sorted(unneeded.items(), key=lambda item: (len(item[1].pods), item[0])):
            if self.nodes <= self._group.least or (gone and state.pods):
                break  # nodes with pods go one at a time
            if now - self._idle_since[name] >= self.unneeded and self._can_move(state):
                self.evicted += len(state.pods)
                world.remove_node(name)
                for due in (self._published, self._pulled):
                    due.pop(name, None)
                gone.append(name)
        return gone

    evicted = 0
    """Placeholders that were evicted because their node was removed."""

    def _is_unneeded(self, state: NodeState) -> bool:
        return self._utilization(state) < self.threshold and all(map(_is_movable, state.pods))

    def _utilization(self, state: NodeState) -> float:
        """The larger of CPU and memory; on a node with devices only the devices, where a shared one counts as one."""
        name = state.node.name
        devices = [item for item in self._world.snapshot.slices.values() if item.node_name == name]
        if devices:
            used = {
                (each.id.pool, each.id.device)
                for tracked in self._world.snapshot.claims.values()
                for each in tracked.claim.status.devices or ()
                if each.id.pool == name
            }
            return len(used) / sum(len(item.devices) for item in devices)
        shares = [state.requested.get(resource, 0) / state.node.allocatable[resource] for resource in ("cpu", "memory")]
        return max(shares)

    def _can_move(self, state: NodeState) -> bool:
        snapshot = self._world.snapshot
        with snapshot.trial():
            pods = take_down_node(snapshot, state.node.name)
            return all(any(self._moves_to(pod, name) for name in list(snapshot.nodes)) for pod in pods)

    def _moves_to(self, pod: Pod, node: str) -> bool:
        replacement, objects = self._world.replacement_of(pod)
        for obj in objects:
            self._world.snapshot.put(obj)
        self._world.snapshot.put(replacement)
        return self._world.snapshot.schedule(replacement, node).fits


def _is_movable(pod: Pod) -> bool:
    """Users' servers belong to no controller, so they prevent any scale-down; placeholders do not."""
    return pod.labels.get(names.COMPONENT) == names.PLACEHOLDER


def _due(moments: dict[str, datetime], now: datetime) -> Iterator[str]:
    yield from [name for name, moment in sorted(moments.items()) if moment <= now]
