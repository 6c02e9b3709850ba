"""Handovers on a real node: how long until containers run, and whether they always do.

Run ``python -m tests.bench.node`` as root, with runc. A real kubelet, containerd and DRA driver on a real control plane;
server and placeholder do nothing. Times are from the creation of the pod until the API says that it runs.

First one by one, in changing order, with a driver that takes 0, 2 and 10 s to prepare a device:

- "plain": a pod without claims.
- "joined": a pod with a claim that another pod on the node already has. There is no handover; this is the time
  that Kubernetes itself needs for a prepared claim.
- "beside": a handover. The new placeholder waits until the old one is gone, as it does where ``max`` is ``min``.
- "refilled": a handover. The new placeholder is created as soon as the server's pod has its node, and starts on the same
  node at the same time. On two processors that costs the server 0.1 to 0.3 s.
- "template": a pod with a claim of its own.

Aim: a handover takes at most 1.1 times as long as the plain pod, whatever the driver takes.

Then many, several at once, each with a random delay of the hub (after the reservation), of the volume (a ConfigMap that
comes late) and of the driver. Aim: all of them run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dra_spawner.kube.cluster_watch import Change
from dra_spawner.placeholders.planner.policy import ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on
from tests.cluster.harness_binary import control_plane_binary
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import priority_class
from tests.node.devices import GPU_DRIVER, GPU_SHARE_CLASS, Pools, device_classes
from tests.node.images import PAUSE, QUICK_SERVER
from tests.node.machine import examine
from tests.node.node_binaries import node_binaries
from tests.node.objects import claim_spec
from tests.node.real_node import NodeOptions, RealNode
from tests.placeholders.controller.objects import shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.polling import eventually

NODE = "node-bench"
SHARE = {"gpu": claim_spec(GPU_SHARE_CLASS, memory="10Gi")}
WANTED: Shape = shape(SHARE, cpu="10m", image=QUICK_SERVER)
PREPARATIONS = (0.0, 2.0, 10.0)
#: No start here takes longer, unless it is stuck.
STUCK_SECONDS = 120.0
#: Names of the kinds of start, in the order of their turns.
KINDS = ("plain", "joined", "beside", "refilled", "template")


def pools() -> Mapping[str, Pools]:
    """Shares for more servers than there are."""
    policy = {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
    memory = {"memory": {"value": "1000Gi", "requestPolicy": policy}}
    devices = [{"name": f"gpu-{number}", "allowMultipleAllocations": True, "capacity": memory} for number in range(4)]
    return {GPU_DRIVER: {f"{NODE}-gpus": [{"devices": devices}]}}


@dataclass
class Bench:
    """A node, the reconciler of its placeholders, and the times when pods ran."""

    node: RealNode
    cluster: ClusterUnderTest
    world: PlaceholderWorld
    warm: int
    ran: dict[str, float] = field(default_factory=dict)

    def note(self, change: Change) -> None:
        pod = self.world.watch.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
        if pod is not None and pod.is_running:
            self.ran.setdefault(pod.name, time.perf_counter())

    async def runs(self, name: str, began: float) -> float | None:
        """Seconds until a pod runs; None if it never does."""
        try:
            await eventually(lambda: name in self.ran, f"{name} runs", STUCK_SECONDS, pause_seconds=0.005)
        except AssertionError:
            return None
        return self.ran[name] - began

    async def reserved(self, name: str) -> dict[str, str]:
        """Names of the warm claims that a pod gets, as soon as there are any."""

        async def claims() -> dict[str, str]:
            return dict((await self.world.reservations.place(WANTED, self.cluster.namespace, name)).claims)

        found = await eventually(claims, "a placeholder is warm", STUCK_SECONDS, pause_seconds=0.1)
        self.world.reconciler.wake()
        return found

    async def start(self, kind: str, name: str, **spec: Any) -> float | None:
        """Prepare a start, begin it, and wait until it runs."""
        options = {"cpu": "10m", "image": QUICK_SERVER, **spec}
        if kind in ("plain", "template"):
            began = time.perf_counter()
            await self.world.user(name, SHARE if kind == "template" else {}, **options)
        else:
            claims = await (self.joinable_claims(name) if kind == "joined" else self.reserved(name))
            began = time.perf_counter()
            await self.world.named_user(name, claims, SHARE, **options)
        return await self.runs(name, began)

    async def joinable_claims(self, name: str) -> dict[str, str]:
        """Names of the claims that a pod of nobody's has on the node."""
        holder = f"{name}-holder"
        await self.world.user(holder, SHARE, cpu="10m", image=PAUSE)
        if await self.runs(holder, time.perf_counter()) is None:
            raise TimeoutError(f"{holder} does not run")
        pod = await self.cluster.admin.get(self.cluster.path("pods", holder))
        await asyncio.sleep(0.5)
        return {each["name"]: each["resourceClaimName"] for each in pod["status"]["resourceClaimStatuses"]}

    def refill(self, at_once: bool) -> None:
        """Whether a new placeholder is created before the one that is handed over is gone."""
        replicas = ReplicaRange(self.warm, 2 * self.warm + 10 if at_once else self.warm)
        self.world.policy = replace(self.world.policy, replicas={WANTED.id: replicas})

    async def end(self, name: str, claims: Sequence[str] = ()) -> None:
        """A server ends; garbage is not collected here."""
        await self.cluster.admin.delete(self.cluster.path("pods", name), missing_ok=True)
        await self.world.until(
            lambda: ObjectKey(self.cluster.namespace, name) not in self.world.watch.snapshot.pods, 60
        )
        for claim in claims:
            await self.cluster.admin.delete(self.cluster.path("resourceclaims", claim), missing_ok=True)


async def one_by_one(bench: Bench, preparation: float, times: int) -> dict[str, list[float]]:
    await asyncio.to_thread(bench.node.gpus.slow, prepare=preparation, unprepare=0)
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(times):
        for kind in random.Random(number).sample(KINDS, len(KINDS)):  # none is always after the same one
            name = f"{kind}-{preparation:g}-{number}"
            bench.refill(at_once=kind == "refilled")
            # Work in the background must be finished.
            await bench.world.until(lambda: len(bench.world.warm(WANTED)) == bench.warm, 60)
            await asyncio.sleep(1)
            seconds = await bench.start(kind, name)
            if seconds is None:
                raise TimeoutError(f"{name} does not run")
            found[kind].append(seconds)
            await bench.end(name)
            if kind == "joined":
                await bench.end(f"{name}-holder")
    return found


@dataclass
class Tally:
    """Results of many handovers."""

    seconds: list[float] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)


async def many(bench: Bench, count: int, at_once: int, seed: int) -> Tally:
    chance, tally = random.Random(seed), Tally()
    bench.refill(True)
    await asyncio.to_thread(bench.node.gpus.slow, prepare=(0, 5), unprepare=(0, 5))
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await one(bench, f"many-{number}", chance, tally)
            done = len(tally.seconds) + len(tally.stuck)
            if done % 25 == 0:
                print(f"  {done} of {count}, {len(tally.stuck)} stuck", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(some())
    return tally


async def one(bench: Bench, name: str, chance: random.Random, tally: Tally) -> None:
    """One handover with everything late."""
    hub, volume = chance.uniform(0, 10), chance.uniform(0, 20)
    claims = await bench.reserved(name)
    await asyncio.sleep(hub)
    home = [{"name": "home", "configMap": {"name": name}}]
    began = time.perf_counter()
    options = {"cpu": "10m", "image": QUICK_SERVER, "volumes": home}
    await bench.world.named_user(name, claims, SHARE, **options)
    await asyncio.sleep(volume)
    await bench.cluster.publish({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    seconds = await bench.runs(name, began)
    if seconds is None:
        pod = await bench.cluster.admin.get(bench.cluster.path("pods", name))
        tally.stuck.append(f"{name}: hub {hub:.1f} s, volume {volume:.1f} s: {pod['status']}")
    else:
        tally.seconds.append(seconds)
    await bench.end(name, list(claims.values()))


@contextlib.asynccontextmanager
async def running(directory: Path, loop: BackgroundLoop, warm: int) -> AsyncIterator[Bench]:
    """A node with so many warm placeholders."""

    def report(text: str) -> None:
        print(text, flush=True)

    harness = control_plane_binary(report)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(harness, directory / "plane", client_qps=500, node_grace_seconds=None))
        options = NodeOptions(pools=pools())
        binaries = node_binaries(harness, report)
        node = RealNode(plane, binaries, examine(), directory / "node", name=NODE, options=options)
        await asyncio.to_thread(stack.enter_context, node)
        async with namespace_on(plane, loop, directory / "cluster", keeps_nodes=True) as cluster:
            await cluster.publish(*device_classes(), priority_class())
            async with at_work(cluster, (WANTED, ReplicaRange(warm, 2 * warm + 10)), image=PAUSE) as world:
                bench = Bench(node, cluster, world, warm)
                world.watch.on_change(bench.note)
                await world.until(lambda: len(world.warm(WANTED)) == warm, 120)
                yield bench


async def measure(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="node-bench-") as name, BackgroundLoop("bench") as loop:
        async with running(Path(name), loop, max(3, options.at_once + 4)) as bench:
            for preparation in options.driver_seconds if options.times else ():
                report_one_by_one(preparation, await one_by_one(bench, preparation, options.times))
            tally = await many(bench, options.handovers, options.at_once, options.seed)
    report_many(tally)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    return not tally.stuck


def report_one_by_one(preparation: float, found: Mapping[str, Sequence[float]]) -> None:
    plain = statistics.median(found["plain"])
    for kind in KINDS:
        values = found[kind]
        median = statistics.median(values)
        print(f"driver takes {preparation:4g} s  {kind:9} median {median:6.3f} s  max {max(values):6.3f} s  "
              f"{median / plain:6.2f} x plain", flush=True)  # fmt: skip


def report_many(tally: Tally) -> None:
    total = len(tally.seconds) + len(tally.stuck)
    if tally.seconds:
        median, longest = statistics.median(tally.seconds), max(tally.seconds)
        print(f"{len(tally.seconds)} of {total} handovers ran; median {median:.1f} s, longest {longest:.1f} s")
    for each in tally.stuck:
        print(f"stuck: {each}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="of each kind of start, one by one; 0 leaves that out")
    parser.add_argument(
        "--driver-seconds", type=float, nargs="+", default=PREPARATIONS, help="until a device is prepared"
    )
    parser.add_argument("--handovers", type=int, default=500, help="with everything late")
    parser.add_argument("--at-once", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    return 0 if asyncio.run(measure(parser.parse_args())) else 1


if __name__ == "__main__":
    sys.exit(main())
