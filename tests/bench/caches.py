"""Gain of each cache of the simulator: ``python -m tests.bench.caches``.

The same work is done with all caches and without one of them, in turns, on clusters of 100, 1,000 and 5,000 nodes. A figure
is the CPU time without the cache over the time with it, each the median of the rounds. A cache whose figures are all below 1.1
is not worth its lines.

The works are questions of the service, the form and ``fit``:

- *cold*: a new `DeviceState` is asked about all nodes, once (``dra-spawner fit``).
- *form*: every shape of the form is asked about all nodes, and nothing has changed since (availability for each user).
- *event*: one share is taken or given back, then every shape asks for its first fitting node (a round of decisions).
- *groups*: the same change, then every shape asks about all nodes.
- *nodes*: the same change, then one shape asks about 200 nodes one by one (which placeholders to preempt).
- *tokens*: the same change, then one shape asks of 200 nodes whether the verdict can be another one (preemption, too).
- *place*: claims are placed one after the other on the first node where they fit.
- *rush*: six claims for each node are placed like this on an idle cluster, while some are given back.

Claims are made anew for each question, as decoding makes them; only *form* asks with the same objects. Half of the nodes
have another product, and of the shapes one asks for two devices, which no single-device verdict serves.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import count
from typing import Any

from dra_spawner.dra.model.objects import DeviceClass, Node, ResourceClaim, ResourceSlice
from dra_spawner.dra.model.pools import SliceIndex, gather_pools
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES
from dra_spawner.simulator.devices.caching import CacheSizes
from dra_spawner.simulator.devices.device_state import DeviceState
from dra_spawner.simulator.devices.pool_views import PoolViews
from tests.bench.figures import options_parser, timed
from tests.bench.fleet import DRIVER, Fleet

Json = dict[str, Any]
Shape = Callable[[], list[ResourceClaim]]


class Cluster:
    """Decoded objects of a fleet of two kinds of nodes, and shapes of claims."""

    def __init__(self, nodes: int, *, common: bool) -> None:
        self.fleet = Fleet(nodes, shared=True, busy=0.8)
        for item in self.fleet.slices[::2]:
            for device in item["spec"]["devices"]:
                device["attributes"]["productName"] = {"string": "H100 80GB"}
        network = [network_slice()] if common else []
        self.slices = [ResourceSlice.from_json(item) for item in [*self.fleet.slices, *network]]
        self.classes = [DeviceClass.from_json(item) for item in self.fleet.classes]
        self.nodes = [Node.from_json(item) for item in self.fleet.nodes]
        self.claims = [ResourceClaim.from_json(item) for item in self.fleet.existing]
        self._names = count()
        self.shapes: list[Shape] = [self._shape(size) for size in (5, 10, 15, 20, 40, 80)]
        self.shapes.append(self._shape(15, devices=2))
        if common:
            self.shapes.append(self._shape(10, with_port=True))

    def state(self, sizes: CacheSizes) -> DeviceState:
        return DeviceState(self.slices, self.classes, self.nodes, self.claims, sizes=sizes)

    def _shape(self, size: int, devices: int = 1, with_port: bool = False) -> Shape:
        def claims() -> list[ResourceClaim]:
            obj = self.fleet.claim(f"claim-{next(self._names)}", size)
            (request,) = obj["spec"]["devices"]["requests"]
            request["exactly"]["count"] = devices
            if with_port:
                port = {
                    "deviceClassName": DRIVER,
                    "selectors": [{"cel": {"expression": f"'{PORT}' in device.attributes"}}],
                }
                obj["spec"]["devices"]["requests"].append({"name": "port", "exactly": port})
            return [ResourceClaim.from_json(obj)]

        return claims


PORT = "ports.example.com"


def network_slice() -> Json:
    """Devices that every node can use."""
    devices = [{"name": f"port-{at}", "attributes": {f"{PORT}/index": {"int": at}}} for at in range(128)]
    pool = {"name": "ports", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "ports"}, "spec": spec}


class Work:
    """One state, and the questions to it."""

    def __init__(self, cluster: Cluster, sizes: CacheSizes) -> None:
        self.cluster = cluster
        self.sizes = sizes
        self.state = cluster.state(sizes)
        self.random = random.Random(1)
        self.recorded: list[tuple[str, str]] = []
        self.asked = [shape() for shape in cluster.shapes]

    def change(self) -> None:
        """A share is taken on some node where it fits, or given back."""
        if self.recorded and self.random.random() < 0.5:
            self.state.release(self.recorded.pop())
            return
        claims = self.cluster.shapes[0]()
        name = self.random.choice(self.cluster.nodes).name
        found = self.state.allocate(name, claims)
        if isinstance(found, tuple):
            self.recorded.append((claims[0].namespace, claims[0].name))
            self.state.record(self.recorded[-1], found[0].results)

    def cold(self) -> None:
        list(self.cluster.state(self.sizes).verdicts(self.cluster.shapes[2](), explain=False))

    def form(self) -> None:
        for claims in self.asked:
            verdicts = self.state.verdicts(claims, explain=False)
            sum(group.fits for group in verdicts)

    def event(self) -> None:
        self.change()
        for shape in self.cluster.shapes:
            self.state.first_fitting_node(shape())

    def groups(self) -> None:
        self.change()
        for shape in self.cluster.shapes:
            sum(group.fits for group in self.state.verdicts(shape(), explain=False))

    def nodes(self) -> None:
        self.change()
        claims = self.cluster.shapes[3]()
        for node in self.cluster.nodes[:200]:
            self.state.allocate(node.name, claims)

    def tokens(self) -> None:
        self.change()
        token_of = self.state.tokens(self.cluster.shapes[3]())
        for node in self.cluster.nodes[:200]:
            token_of(node.name)

    def place(self) -> None:
        for _ in range(10):
            if not _placed(self.state, self.random.choice(self.cluster.shapes[:5])(), []):
                return

    def rush(self) -> None:
        """On an idle cluster: the state, too, is new."""
        cluster = self.cluster
        state = DeviceState(cluster.slices, cluster.classes, cluster.nodes, sizes=self.sizes)
        placed: list[tuple[str, str]] = []
        for _ in range(6 * len(cluster.nodes)):
            if placed and self.random.random() < 0.3:
                state.release(placed.pop(self.random.randrange(len(placed))))
            if not _placed(state, self.random.choice(cluster.shapes[:5])(), placed):
                return


def _placed(state: DeviceState, claims: list[ResourceClaim], into: list[tuple[str, str]]) -> bool:
    """Record a claim on the first node where it fits; whether there is one."""
    name = state.first_fitting_node(claims)
    if name is None:
        return False
    found = state.allocate(name, claims)
    assert isinstance(found, tuple)
    into.append((claims[0].namespace, claims[0].name))
    state.record(into[-1], found[0].results)
    return True


WORKS = ("cold", "form", "event", "groups", "nodes", "tokens", "place", "rush")


def ratio(cluster: Cluster, name: str, without: CacheSizes, seconds: float) -> tuple[float, float]:
    """Time without over time with, and the time with."""
    both = [Work(cluster, CacheSizes()), Work(cluster, without)]
    times: list[list[float]] = [[], []]
    for work in both:
        getattr(work, name)()
    end = time.perf_counter() + seconds
    while len(times[1]) < 3 or (time.perf_counter() < end and len(times[1]) < 100):
        # Turn about: each goes first as often.
        for at in (0, 1) if len(times[0]) % 2 else (1, 0):
            with timed(times[at]):
                getattr(both[at], name)()
    with_cache = statistics.median(times[0])
    return statistics.median(times[1]) / with_cache, with_cache


def other_ratios(cluster: Cluster) -> dict[str, float]:
    """Gains of an arrangement that follows changes, and of an index that is made late.

    Without `PoolViews`, a slice that comes means to group all slices anew; without the late index of `Holders`, a state that
    is asked one question groups all claims by name.
    """
    views = PoolViews(DEFAULT_RULES, cluster.slices)
    node, item = cluster.nodes[0], cluster.slices[0]
    claims = cluster.shapes[2]()
    times: dict[str, list[float]] = {name: [] for name in ("followed", "anew", "late", "at once")}
    for _ in range(9):
        with timed(times["followed"]):
            views.put(item)
            views.view(node)
        with timed(times["anew"]):
            gather_pools(SliceIndex(cluster.slices), node, DEFAULT_RULES)
        with timed(times["late"]):
            list(cluster.state(CacheSizes()).verdicts(claims, explain=False))
        with timed(times["at once"]):
            state = cluster.state(CacheSizes())
            len(state.holders)
            list(state.verdicts(claims, explain=False))
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {"pool_views": medians["anew"] / medians["followed"], "holders": medians["at once"] / medians["late"]}


def main() -> int:
    parser = options_parser(__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 5000])
    parser.add_argument("--cache", nargs="*", default=[item.name for item in fields(CacheSizes)])
    parser.add_argument("--work", nargs="*", default=list(WORKS))
    parser.add_argument("--seconds", type=float, default=2.0, help="at least this long for each figure (%(default)s)")
    options = parser.parse_args()
    gc.disable()  # garbage of one side is not collected during the other
    print(f"{'time without / with':18} {'nodes':>6}  {'devices':8}" + "".join(f"{name:>10}" for name in options.work))
    for nodes in options.nodes:
        for common in (False, True):
            gc.collect()
            cluster = Cluster(nodes, common=common)
            devices = "+ common" if common else "local"
            for cache in options.cache:
                without = replace(CacheSizes(), **{cache: 0})
                found = [ratio(cluster, name, without, options.seconds) for name in options.work]
                print(f"{cache:18} {nodes:6,}  {devices:8}" + "".join(f"{each:10.2f}" for each, _ in found), flush=True)
            print(f"{'ms with all':18} {nodes:6,}  {devices:8}" + "".join(f"{each * 1000:10.2f}" for _, each in found))
            for name, each in other_ratios(cluster).items():
                print(f"{name:18} {nodes:6,}  {devices:8}{each:10.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
