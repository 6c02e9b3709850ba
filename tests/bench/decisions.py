"""From an event of a watch to the decision: how long that takes on a big cluster, and how much memory.

Run ``python -m tests.bench.decisions``. On a real control plane there are 5,000 nodes with 40,000 devices and 10,000 users'
servers with shares of them. While the service keeps placeholders and users come and go, events of watches are recorded
(`tests.bench.recorded_cluster`, some minutes; another process). The recording is followed then: every event comes as a line
of JSON as an API server sends it; the time is that from this line to what is decided, with every event that makes a
difference decided on by itself, as if none came together. It is processor time, which other programs disturb little.
What was done when it was recorded is done when it was, so the same is decided until then; decisions to do nothing are
counted separately. Aims: 4 ms at p50, 10 ms at p99. Before that, it is asked thirty times at once for a placement
without any placeholder: 0.3 s for all of them.

With ``--generated`` no control plane is needed: another process makes up the events, larger and of more kinds, and does
with each decision what a cluster would do.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import multiprocessing
import pstats
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

from kubernetes_asyncio.client import ApiClient

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import Change
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.reconciler import Reconciler
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.planner.amounts.planner_state import PlannerState
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decide import decide
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.profiles.drivers import drivers_prepare_for
from tests.bench.busy_hub import HubProcess
from tests.bench.event_stream import NAMESPACE, idle_watch, take_in
from tests.bench.figures import options_parser, peak_megabytes, resident_megabytes, times
from tests.bench.recorded_cluster import Event, Recording, record


class Follower:
    """Takes in events, decides, and keeps the times."""

    def __init__(self, recording: HubProcess | Recording, placeholders: int) -> None:
        self.recording = recording
        replicas = {shape: ReplicaRange(placeholders, 2 * placeholders) for shape in recording.shapes}
        self.policy = Policy(shapes=recording.shapes, replicas=replicas, drivers_prepare_for=drivers_prepare_for())
        self.watch = idle_watch()
        self.changes: list[Change] = []
        self.watch.on_change(self.changes.append)
        self.index = ClusterIndex()
        self.planner_state = PlannerState.fresh(recording.now)
        self.actions: Counter[str] = Counter()

    def take_in(self, event: Event) -> bool:
        """Whether it makes a difference."""
        self.changes.clear()
        take_in(self.watch, event.kind, event.line)
        return any(change.decides for change in self.changes)

    def decide(self) -> None:
        view = View(self.watch.snapshot, self.recording.now, namespaces={NAMESPACE}, index=self.index)
        self.decided = decide(view, self.policy, self.planner_state)
        self.planner_state = self.decided.planner_state
        self.actions.update(type(each).__name__ for each in self.decided.actions)

    def executor(self) -> None:
        """What the decision does to the cluster; not timed."""
        self.recording.executor(self.decided.actions)


ASKERS = 30


def ask_for_placements(follower: Follower) -> None:
    """Many users log in at once; each has another shape than the one before."""
    # The recording is no cluster: it is never seen whole.
    policy = Policy(shapes=follower.recording.without_placeholders, stale_after=timedelta.max)
    executor = ActionExecutor(
        KubernetesApi(ApiClient.__new__(ApiClient)),  # nothing is reserved
        PlaceholderSettings(),
        may_act=lambda: None,
        new_name=lambda shape: "",
    )
    reconciler = Reconciler(follower.watch, lambda: policy, executor, DecisionLog(), frozenset((NAMESPACE,)))
    reservations = Reservations(reconciler)
    shapes = list(policy.shapes.values())

    async def ask() -> tuple[float, float, float]:
        began = time.perf_counter()
        await reconciler.warm_up()
        warmed = time.perf_counter()
        one = await reservations.place(shapes[0], NAMESPACE, "one")
        answered = time.perf_counter()
        reconciler.expectations.version += 1
        reconciler.is_running = True
        users = (
            reservations.place(shapes[number % len(shapes)], NAMESPACE, f"user-{number}") for number in range(ASKERS)
        )
        found = await asyncio.gather(*users)
        assert {each.placement.state for each in (one, *found)} == {AvailabilityState.FREE}
        return warmed - began, answered - warmed, time.perf_counter() - answered

    beforehand, one, many = asyncio.run(ask())
    print(f"places that are not kept: {one * 1000:.0f} ms for one, {many * 1000:.0f} ms for {ASKERS} of {len(shapes)} shapes at once; "
          f"{beforehand:.1f} s to prepare when the service begins to lead")  # fmt: skip


def main() -> int:
    parser = options_parser(__doc__, nodes=5000, pods=10000, seed=1)
    parser.add_argument("--placeholders", type=int, default=50, help="of each of two shapes")
    parser.add_argument("--coming", type=int, default=300, help="users who come, and as many go, while it is recorded")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--generated", action="store_true", help="make the events up, without a control plane")
    parser.add_argument("--events", type=int, default=5000, help="generated ones")
    options = parser.parse_args()
    if options.generated:
        return follow(HubProcess(options.nodes, options.pods, options.events, options.seed), options)
    with tempfile.TemporaryDirectory() as directory:
        recording = multiprocessing.get_context("spawn").Process(
            target=record,
            args=(Path(directory), options.nodes, options.pods, options.placeholders, options.coming, options.seed),
        )
        recording.start()
        recording.join()
        if recording.exitcode:
            return 1
        return follow(Recording(Path(directory)), options)


def follow(recording: HubProcess | Recording, options: argparse.Namespace) -> int:
    """Follow the events, and print the times."""
    follower = Follower(recording, options.placeholders)
    spent_on: dict[str, list[float]] = defaultdict(list)
    rest: list[float] = []
    idle: list[float] = []
    profile = cProfile.Profile() if options.profile else None
    listed = 0
    for event in recording:
        if event.label == "list":
            follower.take_in(event)
            listed += 1
            continue
        if not spent_on and not rest:
            ask_for_placements(follower)
            started = time.thread_time()
            follower.decide()
            print(f"{listed} objects listed; first decision after {time.thread_time() - started:.2f} s")
            follower.executor()
            gc.collect()
            gc.freeze()  # as `dra-spawner service` does once everything was seen
        if profile:
            profile.enable()
        started = time.thread_time()
        decides = follower.take_in(event) and not event.more
        if decides:
            follower.decide()
        spent = time.thread_time() - started
        if profile:
            profile.disable()
        if decides:
            spent_on[event.label].append(spent)
            if not follower.decided.actions:
                idle.append(spent)
            follower.executor()
        else:
            rest.append(spent)
    everything = [each for values in spent_on.values() for each in values]
    lines = {**dict(sorted(spent_on.items())), "all that are decided on": everything, "of them to do nothing": idle}
    for label, values in {**lines, "all others": rest}.items():
        if values:
            print(f"{label:23} {len(values):6} times  {times(values)}")
    print(f"decided: {dict(follower.actions)}")
    print(f"memory: {resident_megabytes():.0f} MB at the end, {peak_megabytes():.0f} MB at most")
    if profile:
        pstats.Stats(profile).sort_stats("cumtime").print_stats(35)
    return 0


if __name__ == "__main__":
    sys.exit(main())
