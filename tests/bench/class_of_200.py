"""A class of 200: waiting times of users who all click within a minute, and the costs.

Run ``python -m tests.bench.class_of_200``. The cluster has no nodes. A calendar entry announces "200 of gpu-slice" for 10:00.
The clock begins a day before, and every minute has its forecast, so that a node that comes for nothing is counted. At 10:00
all users click within one minute; at 11:30 they leave; at 12:30 the nodes are counted. Beside it are a fixed
number of the service's placeholders, and zero-to-jupyterhub's recipe: a fixed number of pods of a low priority, without
claims, and its scheduler's settings.

The control plane is real, with Kubernetes' own limits of clients; the hub is a JupyterHub process with DRASpawner. The
service's application and a stand-in for cluster-autoscaler (`tests.placeholders.planner.autoscaler`) run in this process. Nodes are objects
(4 GPUs of 80Gi: 32 servers). The clock jumps ahead while nothing happens; while users click it goes at its own speed. So
waits for nodes are those of the clock, and the latencies of hub, service and scheduler are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from dra_spawner.kube.cluster_watch import Change
from dra_spawner.placeholders.planner.actions import CreatePlaceholder
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.bench.class_cluster import DAY, KIND, PREFIX, PROFILE, ClassCluster, PlaceholderSetup, class_cluster
from tests.bench.figures import Progress, options_parser
from tests.bench.spawn import start_stub
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on
from tests.cluster.harness_binary import BinaryUnavailable, control_plane_binary
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.placeholders.planner.objects import IMAGE
from tests.polling import eventually
from tests.service.replica import TOKEN
from tests.virtual_time.systems import SCHEDULER_PROFILES, USER_SCHEDULER

CLASS = DAY + timedelta(hours=10)
_ENDS = DAY + timedelta(hours=11, minutes=30)
_COUNTED = _ENDS + timedelta(hours=1)
_RUSH_SECONDS = 60.0
#: A user without a node by then needs a new node, and the clock jumps again.
_PATIENCE_SECONDS = 90.0
_LONGEST_WAIT = timedelta(hours=1)
#: Requests to stop a server that are under way at once.
_STOPS = 30


def setups(users: int, fixed: int) -> dict[str, PlaceholderSetup]:
    """The compared setups."""
    entry = {"users": f"{users} of {PROFILE}", "begins": f"{CLASS:%Y-%m-%d %H:%M}", "minutes": 90, "name": "class"}
    calendar = {
        "placeholders": {PROFILE: {"min": 0, "max": 2 * users}},
        "scale_ahead": "act",
        "calendar_entries": [entry],
        "node_kinds": [KIND],
    }
    number = {"placeholders": {PROFILE: {"min": fixed, "max": fixed}}, "scale_ahead": "observe"}
    return {
        "calendar": PlaceholderSetup("calendar entry", calendar),
        "fixed": PlaceholderSetup(f"{fixed} placeholders, fixed", number),
        "z2jh": PlaceholderSetup(f"z2jh's recipe, {fixed} pods", recipe=fixed),
    }


@dataclass
class Outcome:
    """Times of users and nodes.

    Attributes
    ----------
    clicked, bound
        Moments of the clock, by user.
    node
        Of each user's server.
    warm
        Users who got the claim of a placeholder.
    refused
        Clicks that the hub refused, with its answer.
    """

    setup: PlaceholderSetup
    clicked: dict[str, datetime] = field(default_factory=dict)
    bound: dict[str, datetime] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)
    warm: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    ordered_at: dict[str, datetime] = field(default_factory=dict)
    complete_at: dict[str, datetime] = field(default_factory=dict)
    max_nodes: int = 0
    idle_nodes: int = 0
    node_hours: float = 0.0

    def with_image(self) -> int:
        """Users who were bound to a node that had the image."""
        return sum(self.complete_at[self.node[user]] <= at for user, at in self.bound.items())

    def waited(self) -> int:
        """Users whose node was not complete when they clicked."""
        return sum(self.complete_at[self.node[user]] > self.clicked[user] for user in self.bound)

    def seconds(self) -> list[float]:
        """From the click to the node."""
        return [(at - self.clicked[user]).total_seconds() for user, at in self.bound.items()]

    def seconds_to_image(self) -> list[float]:
        """From the click to a node that has the image."""
        return [
            (max(at, self.complete_at[self.node[user]]) - self.clicked[user]).total_seconds()
            for user, at in self.bound.items()
        ]

    def row(self) -> list[str]:
        before = [name for name, at in self.ordered_at.items() if at < CLASS]
        ordered = [self.ordered_at[name] for name in before]
        ready = [self.complete_at[name] for name in before if name in self.complete_at]
        return [
            self.setup.title,
            f"{self.with_image()} of {len(self.clicked)}",
            str(len(self.warm)),
            str(self.waited()),
            " / ".join(f"{each:.1f}" for each in _quantiles(self.seconds())),
            " / ".join(f"{each:.1f}" for each in _quantiles(self.seconds_to_image())),
            f"{len(before)} + {len(self.ordered_at) - len(before)}",
            _span(ordered),
            _span(ready),
            str(self.idle_nodes),
            f"{self.node_hours:.1f}",
        ]


COLUMNS = (
    "placeholders",
    "bound to a node with the image",
    "with a warm device",
    "waited for a node",
    "click to bound, s: p50 / p95 / max",
    "click to node and image, s",
    "nodes ordered before + after 10:00",
    "those before: ordered",
    "ready",
    "idle nodes at 12:30",
    "node-hours",
)


def _quantiles(seconds: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return cuts[49], cuts[94], max(seconds)


def _span(moments: Sequence[datetime]) -> str:
    return f"{_clock(min(moments)):%H:%M} to {_clock(max(moments)):%H:%M}" if moments else "none"


def _clock(moment: datetime) -> datetime:
    """A moment by a clock on which the class begins at ten."""
    return datetime(2000, 1, 2) + (moment - DAY)


def class_hub(cluster: ClusterUnderTest, setup: PlaceholderSetup, port: int, service_url: str) -> HubProcess:
    """A hub whose servers answer at a port of this machine; with the service, if there is one."""
    more = f"""
c.DRASpawner.image = {IMAGE!r}
c.DRASpawner.cmd = ["notebook"]
c.DRASpawner.port = {port}
c.DRASpawner.cpu_guarantee = 0.25
c.DRASpawner.mem_guarantee = "1G"
c.DRASpawner.start_timeout = 900
c.DRASpawner.http_timeout = 60
# Its default lets 100 start at once, and refuses the others.
c.JupyterHub.concurrent_spawn_limit = 0
"""
    if setup.settings is not None:
        root = service_url.removesuffix(PREFIX.rstrip("/"))
        more += f"""
c.JupyterHub.services.append({{"name": "dra-spawner", "url": {root!r}, "api_token": {TOKEN!r}}})
"""
    else:
        more += f"c.DRASpawner.scheduler_name = {USER_SCHEDULER!r}\n"
    return HubProcess(cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more)


class ClassDay:
    """The day of the class.

    Parameters
    ----------
    report
        Called with the progress of the day.
    """

    def __init__(
        self, cluster: ClassCluster, hub: HubProcess, outcome: Outcome, users: int, report: Callable[[str], None]
    ) -> None:
        self.cluster = cluster
        self.hub = hub
        self.outcome = outcome
        self.users = [f"user{number:03}" for number in range(users)]
        self._report = report
        cluster.world.watch.on_change(self._note)

    async def run(self) -> None:
        cluster, outcome = self.cluster, self.outcome
        await self.hub.request("POST", "/users", {"usernames": self.users})
        self.report("the hub has its users")
        await cluster.jump_on(CLASS - timedelta(minutes=30), timedelta(minutes=1))
        await cluster.jump_on(CLASS, cluster.autoscaler.every)
        self.report("the class begins")
        await self._rush()
        self.report(f"{len(outcome.bound)} users are bound")
        if (replica := cluster.world.replica) is not None:
            ahead = cluster.now - datetime.now(UTC)
            assert timedelta(0) < ahead < timedelta(minutes=29), f"the hub believes no reservation: {ahead} ahead"
            counts = ", ".join(
                f"{count} {kind}" for kind, count in replica.running.controller.counts.placements.items()
            )
            self._report(f"the service has answered: {counts or 'nothing'}")
        for reason, count in self._created_since(CLASS).most_common(5):
            self._report(f"{count} placeholders were made since: {reason}")
        await self._until_all_bound()
        await self._until_all_ready()
        self.report("all servers are ready")
        await cluster.jump_on(CLASS + timedelta(minutes=30), timedelta(minutes=2))
        await cluster.jump_on(_ENDS, timedelta(minutes=5))
        self.report("the class ends")
        await self._leave()
        self.report("all servers are gone")
        # Nodes with placeholders go one at a time, so each look of the autoscaler counts.
        await cluster.jump_on(_COUNTED, cluster.autoscaler.every)
        autoscaler = cluster.autoscaler
        outcome.ordered_at, outcome.complete_at = autoscaler.ordered_at, autoscaler.complete_at
        outcome.max_nodes, outcome.idle_nodes = cluster.max_nodes, autoscaler.nodes
        outcome.node_hours = autoscaler.node_seconds / 3600
        self.report("the day is over")

    def report(self, text: str) -> None:
        pods = self.cluster.world.snapshot.pods.values()
        placeholders = [pod for pod in pods if _user_of(pod.labels) is None]
        bound = sum(bool(pod.node_name) for pod in placeholders)
        nodes = self.cluster.autoscaler.nodes
        self._report(
            f"{_clock(self.cluster.now):%H:%M:%S} {text}; {nodes} nodes, {len(placeholders)} placeholders, {bound} bound"
        )

    def _created_since(self, since: datetime) -> Counter[str]:
        """Why the service made placeholders; numbers left out."""
        replica = self.cluster.world.replica
        if replica is None:
            return Counter()
        found = replica.running.context.decisions.newest(
            10_000, matches=lambda each: each.kind == CreatePlaceholder.kind and each.at >= since
        )
        return Counter(re.sub(r"[\w/-]*\d[\d.]*", "N", each.decision.reason) for each in found)

    async def _rush(self) -> None:
        """All users click within a minute, which takes a minute."""
        random = Random(1)
        clicks = [asyncio.create_task(self._click(user, random.uniform(0, _RUSH_SECONDS))) for user in self.users]
        began, world = time.monotonic(), self.cluster.world
        while len(self.outcome.bound) < len(self.users) and time.monotonic() - began < _PATIENCE_SECONDS:
            await asyncio.sleep(0.5)
            await self.cluster.look()
            if world.replica is not None:
                assert world.replica.leads
        await asyncio.gather(*clicks)
        assert not self.outcome.refused, self.outcome.refused[:3]

    async def _click(self, user: str, delay: float) -> None:
        await asyncio.sleep(delay)
        self.outcome.clicked[user] = self.cluster.now
        status, body = await self.hub.request("POST", f"/users/{user}/server", {"profile": PROFILE})
        if status not in (201, 202):
            self.outcome.refused.append(f"{user}: {status} {body}")

    async def _until_all_bound(self) -> None:
        end = CLASS + _LONGEST_WAIT
        while len(self.outcome.bound) < len(self.users):
            missing = set(self.users) - set(self.outcome.bound)
            assert self.cluster.now < end, f"no node for {sorted(missing)}"
            await self.cluster.jump(self.cluster.now + timedelta(seconds=15))

    async def _until_all_ready(self) -> None:
        async def are_ready() -> bool:
            ready = 0
            for offset in range(0, len(self.users), 100):
                _, models = await self.hub.request("GET", f"/users?state=ready&limit=100&offset={offset}")
                ready += len(models)
            return ready == len(self.users)

        await eventually(are_ready, "the hub has seen all servers", within_seconds=120, pause_seconds=0.5)

    async def _leave(self) -> None:
        limit = asyncio.Semaphore(_STOPS)

        async def leave(user: str) -> None:
            async with limit:
                status, body = await self.hub.request("DELETE", f"/users/{user}/server")
                assert status in (202, 204), body

        await asyncio.gather(*map(leave, self.users))
        world = self.cluster.world
        await world.until(lambda: not any(_user_of(pod.labels) for pod in world.snapshot.pods.values()), "all left", 90)

    def _note(self, change: Change) -> None:
        pod = self.cluster.world.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
        if pod is None or not pod.node_name:
            return
        user = _user_of(pod.labels)
        if user is not None and user not in self.outcome.bound:
            self.outcome.bound[user] = self.cluster.now
            self.outcome.node[user] = pod.node_name
            if any(each.claim and not each.template for each in pod.claims):
                self.outcome.warm.add(user)


def _user_of(labels: Mapping[str, str]) -> str | None:
    return labels.get("hub.jupyter.org/username")


async def live(setup: PlaceholderSetup, users: int, binary: Path, report: Callable[[str], None]) -> Outcome:
    """A day with a control plane and a hub of its own."""
    outcome = Outcome(setup)
    async with contextlib.AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="class-")))
        plane = ControlPlane(binary, directory / "plane", scheduler_profiles=SCHEDULER_PROFILES)
        stack.enter_context(plane)
        background = stack.enter_context(BackgroundLoop("cluster"))
        cluster = await stack.enter_async_context(namespace_on(plane, background, directory / "cluster", clears=False))
        port = await start_stub()
        day_cluster = await stack.enter_async_context(class_cluster(cluster, setup, port))
        url = day_cluster.world.replica.running.url if day_cluster.world.replica is not None else ""
        hub = await stack.enter_async_context(class_hub(cluster, setup, port, url))
        await ClassDay(day_cluster, hub, outcome, users, report).run()
    return outcome


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--users", type=int, default=200, help="of the class (%(default)s)")
    parser.add_argument("--fixed", type=int, default=20, help="placeholders, where their number is fixed (%(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=setups(1, 1), default=[*setups(1, 1)], help="what to compare")
    options = parser.parse_args()
    if options.users < 2:
        parser.error("--users: at least 2")
    try:
        binary = control_plane_binary(partial(print, file=sys.stderr))
    except BinaryUnavailable as error:
        print(f"There is no real control plane: {error}", file=sys.stderr)
        return 1
    # The service finds its knowledge old at each jump.
    logging.getLogger("dra_spawner").setLevel(logging.ERROR)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for name in options.kinds:
        setup = setups(options.users, options.fixed)[name]
        outcome = asyncio.run(live(setup, options.users, binary, Progress(name)))
        print(f"| {' | '.join(outcome.row())} |", flush=True)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
