"""A day of the thought experiment in virtual time: users come and go, an autoscaler adds and removes nodes.

A node has ten slots. Five placeholders are wanted. A node takes five minutes from its order, and the image three more.
Two systems can provide the placeholders: ours, and the recipe of zero-to-jupyterhub (one StatefulSet of pods with a
lower priority, which its user-scheduler packs on the fullest nodes and preempts for users).
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.actions import DeletePlaceholder
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.answers.placement import find_placement
from dra_spawner.placeholders.planner.decide import Decisions
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from tests.placeholders.planner.autoscaler import Autoscaler, NodeGroup
from tests.placeholders.planner.objects import NAMESPACE, Json, preferring, share_claim, user_manifest, user_shape
from tests.placeholders.planner.simulated_cluster import START, SimulatedCluster
from tests.placeholders.planner.world import World

SLOTS = 10
PLACEHOLDERS = 5
SHARE = "5Gi"
CPU_NODES = NodeGroup(cpu=str(SLOTS))
GPU_NODES = NodeGroup(cpu="64", gpus=1, memory=f"{5 * SLOTS}Gi")
_ARRIVALS_BY_HOUR = (1, 3, 8, 10, 9, 6, 8, 9, 7, 4, 3, 2, 1)
"""Users by hour, from the seventh hour of the day on, in proportion."""


@dataclass(frozen=True)
class Session:
    """A user who comes, and who leaves a fixed time after the start of the server."""

    name: str
    at: datetime
    lasts: timedelta


def sessions(count: int, seed: int) -> list[Session]:
    """Users of a day: random moments, many before and after noon; half stay for more than 80 minutes."""
    chance = random.Random(seed)
    begin = START.replace(hour=7, minute=0)
    found = []
    for number in range(count):
        (hour,) = chance.choices(range(len(_ARRIVALS_BY_HOUR)), _ARRIVALS_BY_HOUR)
        at = begin + timedelta(hours=hour, seconds=round(chance.uniform(0, 3600)))
        minutes = min(chance.lognormvariate(math.log(80), 0.8), 480.0)
        found.append(Session(f"user-{number}", at, timedelta(minutes=round(minutes, 1))))
    return sorted(found, key=lambda each: each.at)


def first_moment() -> datetime:
    """The beginning of a day, a while before the first user."""
    return START.replace(hour=6, minute=0)


class Ours(World):
    """Placeholders by `dra_spawner.placeholders.planner`, and placements as the spawner asks for them."""

    def __init__(self, shape: Shape, claims: Mapping[str, Json]) -> None:
        self.shape, self.claims = shape, claims
        replicas = {shape.id: ReplicaRange(PLACEHOLDERS, 4 * PLACEHOLDERS)}
        super().__init__(Policy(shapes={shape.id: shape}, replicas=replicas), first_moment())

    def arrive(self, name: str) -> None:
        """A user starts a server."""
        found = find_placement(self.view(), self.policy, self.shape, NAMESPACE)
        kind: Json = {}
        if found.node:
            kind["affinity"] = preferring(found.node)
        if found.state is AvailabilityState.READY and found.placeholder is not None and found.placeholder.claims:
            self.user(name, claim_names=dict.fromkeys(self.claims, self.reservation(found, name)), **kind)
        else:
            self.user(name, self.claims, **kind)

    @property
    def evictions(self) -> int:
        return sum(each.cause.is_eviction for each in self.actions(DeletePlaceholder))


class Recipe(SimulatedCluster):
    """Placeholders as in zero-to-jupyterhub's chart."""

    def __init__(self, shape: Shape, claims: Mapping[str, Json]) -> None:
        self.shape, self.claims = shape, claims
        super().__init__(first_moment())

    def arrive(self, name: str) -> None:
        self.user(name, self.claims, requires_ready=False)

    @property
    def evictions(self) -> int:
        return 0

    def decide(self) -> Decisions:
        """Act as the controller of the StatefulSet."""
        there = [pod for pod in self.snapshot.pods.values() if pod.labels[names.COMPONENT] == names.PLACEHOLDER]
        for _ in range(PLACEHOLDERS - len(there)):
            name = f"user-placeholder-{next(self._numbers)}"
            self.apply(self._template(name))
            self.apply(self._placeholder(name))
        return Decisions((), (), PlannerState.fresh(self.now))

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        name = f"{placeholder.name}-again"
        self.snapshot.apply(self._template(name))
        return Pod.from_json(self._placeholder(name)), ()

    def _template(self, name: str) -> Json:
        metadata = {"name": f"{name}-gpu", "namespace": NAMESPACE}
        spec: Json = next(iter(self.claims.values()), {"devices": {"requests": []}})
        return {"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}

    def _placeholder(self, name: str) -> Json:
        manifest = user_manifest(name, self.claims, requires_ready=False)
        manifest["metadata"] |= {
            "labels": {names.COMPONENT: names.PLACEHOLDER},
            "uid": f"uid-{name}",
            "creationTimestamp": self.stamp(),
        }
        manifest["spec"]["priority"] = -10
        if self.claims:
            entries = [{"name": entry, "resourceClaimTemplateName": f"{name}-gpu"} for entry in self.claims]
            manifest["spec"]["resourceClaims"] = entries
        return manifest

    def _best(self, pod: Any, names: Iterable[str]) -> str:
        """The fullest node, by all pods."""
        return max(names, key=lambda name: (self.snapshot.nodes[name].requested.get("cpu", 0), name))


@dataclass
class Outcome:
    """Figures of a day."""

    waits: dict[str, float] = field(default_factory=dict)
    """Seconds from each user's arrival until the server is on a node with the image."""
    for_node: set[str] = field(default_factory=set)
    """Users who had to wait for a node."""
    for_image: set[str] = field(default_factory=set)
    """Users who were on a node before the image was."""
    blocked: set[str] = field(default_factory=set)
    """Users who were pending although only a placeholder was in the way."""
    node_hours: float = 0.0
    max_nodes: int = 0
    left_over: int = 0
    """Nodes an hour after the last user."""
    evictions: int = 0
    """Placeholders that were rebalanced, drained, or lost their node; not those that a user preempted."""

    def wait(self, percent: int) -> float:
        return statistics.quantiles(self.waits.values(), n=100, method="inclusive")[percent - 1]

    def row(self) -> list[str]:
        """For a table."""
        return [
            *(str(len(each)) for each in (self.for_node, self.for_image, self.blocked)),
            *(f"{self.wait(percent):.2f}" for percent in (50, 95)),
            f"{max(self.waits.values()):.0f}",
            f"{self.node_hours:.1f}",
            *(str(each) for each in (self.max_nodes, self.left_over, self.evictions)),
        ]


COLUMNS = (
    "wait: node", "wait: image", "blocked", "p50 s", "p95 s", "max s", "node-hours", "most nodes", "left", "evictions",
)  # fmt: skip


class Schedule:
    """The arrivals and departures of a day, the autoscaler's steps meanwhile, and the figures of the day."""

    def __init__(self, autoscaler: Autoscaler, users: Iterable[Session]) -> None:
        self.autoscaler = autoscaler
        self.outcome = Outcome()
        self._coming = list(users)
        self._going: list[tuple[datetime, str]] = []

    def _next_moment(self) -> datetime:
        coming = [self._coming[0].at] if self._coming else []
        going = [self._going[0][0]] if self._going else []
        return min([*coming, *going, self.autoscaler.next_event()])

    def _next_leaving(self, now: datetime) -> str:
        """Name of a user who goes now; empty if there is none."""
        return heapq.heappop(self._going)[1] if self._going and self._going[0][0] <= now else ""

    def _next_arriving(self, now: datetime) -> Session | None:
        """A user who comes now."""
        return self._coming.pop(0) if self._coming and self._coming[0].at <= now else None

    def _finish(self, evictions: int) -> Outcome:
        self.outcome.left_over = self.autoscaler.nodes
        self.outcome.node_hours = self.autoscaler.node_seconds / 3600
        self.outcome.evictions = evictions + self.autoscaler.evicted
        return self.outcome


class Day(Schedule):
    """Lets the day pass with one of the systems."""

    def __init__(self, world: Ours | Recipe, group: NodeGroup, users: Iterable[Session]) -> None:
        super().__init__(Autoscaler(world, group), users)
        self.world = world
        self._came: dict[str, Session] = {}

    def run(self) -> Outcome:
        self.autoscaler.begin()
        self._settle()
        while self._coming or self._came:
            self._step(self._next_moment())
        end = self.world.now + timedelta(hours=1)
        while self.world.now < end:
            self._step(min(end, self.autoscaler.next_event()))
        return self._finish(self.world.evictions)

    def _step(self, moment: datetime) -> None:
        world = self.world
        world.now = max(world.now, moment)
        happened = self.autoscaler.run()
        while name := self._next_leaving(world.now):
            world.leave(name)
            del self._came[name]
            happened = True
        while arriving := self._next_arriving(world.now):
            self._came[arriving.name] = arriving
            world.arrive(arriving.name)
            self._settle()
        if happened or world.now.second < 10:  # in any case once a minute
            self._settle()
        self._look()
        self.outcome.max_nodes = max(self.outcome.max_nodes, self.autoscaler.nodes)

    def _settle(self) -> None:
        """Scheduler and decisions take turns; each takes a tenth of a second."""
        world = self.world
        for _ in range(30):
            before = len(world.pending_pods()), len(world.snapshot.pods), len(world.preempted)
            world.schedule()
            done = world.decide()
            world.pass_time(seconds=0.1)
            self._look()
            if not done.actions and before == (
                len(world.pending_pods()),
                len(world.snapshot.pods),
                len(world.preempted),
            ):
                return

    def _look(self) -> None:
        """Note the users who have a node, and the users whose server runs."""
        world, outcome = self.world, self.outcome
        for name, session in self._came.items():
            if name in outcome.waits:
                continue
            node = world.snapshot.pods[ObjectKey(NAMESPACE, name)].node_name
            pending_records = (world.now - session.at).total_seconds()
            if not node:
                if pending_records > 5:
                    outcome.for_node.add(name)
                    if self._is_blocked(name):
                        outcome.blocked.add(name)
                continue
            if not self.autoscaler.has_images(node):
                outcome.for_image.add(name)
                continue
            outcome.waits[name] = round(pending_records, 1)
            heapq.heappush(self._going, (world.now + session.lasts, name))

    def _is_blocked(self, name: str) -> bool:
        return is_blocked(self.world.snapshot, ObjectKey(NAMESPACE, name), self.autoscaler.has_images)


def is_blocked(snapshot: Snapshot, user: ObjectKey, has_images: Callable[[str], bool]) -> bool:
    """Whether a user's pod fits on no node now, but would fit on a node with the image if no placeholder existed."""
    pod = snapshot.pods[user]
    if snapshot.fits(pod, explain=False).fitting:
        return False
    with snapshot.trial():
        for key in [key for key, each in snapshot.pods.items() if _is_placeholder(each)]:
            snapshot.remove_pod(key)
        return any(snapshot.fits_on(pod, node, explain=False).fits and has_images(node) for node in snapshot.nodes)


def _is_placeholder(pod: Pod) -> bool:
    return pod.labels.get(names.COMPONENT) == names.PLACEHOLDER and bool(pod.node_name)


def both(shares: bool, users: int = 150, seed: int = 1) -> Iterator[tuple[str, Outcome]]:
    """The same day with each of the systems."""
    claims = {"gpu": share_claim(SHARE)} if shares else {}
    shape = user_shape(claims)
    for name, kind in (("ours", Ours), ("recipe", Recipe)):
        day = Day(kind(shape, claims), GPU_NODES if shares else CPU_NODES, sessions(users, seed))
        yield name, day.run()
