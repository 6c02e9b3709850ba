"""How long it takes from a pod's creation to its node: plain pods, hand-overs, claims from templates, yields.

Run ``python -m tests.bench.hand_over``. A real control plane with fake nodes and the client limits that Kubernetes gives the
scheduler and the controller manager by default (50 and 20 requests a second; bursts of 100 and 30), to which most of the
figures for many pods at once are due. All kinds of start are measured in the same run, in turn, and compared with one another.

Hand-overs are those of the service: a promise is asked for, then the pod is made that names the claim; the time is that from
the pod's creation. On full nodes the pod has a scheduling gate until its claim is secured; beside means that there is room
for both. Aims: one by one at most 1.5 times a plain pod, 30 at once at most 2.5 times, 100 at once at most 0.6 times the
template path, 95 of 100 yields within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dra_spawner.cluster.api import KubernetesApi, resource_path
from dra_spawner.cluster.cluster_watch import Change, ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.headroom.placeholder_objects import PlaceholderSettings
from dra_spawner.headroom.policy import Budget, Headroom, Policy
from dra_spawner.headroom.shapes import Shape
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.placeholders.carry_out import CarryOut
from dra_spawner.placeholders.placements import Promises
from dra_spawner.placeholders.reconciler import Reconciler
from dra_spawner.simulator.cluster_objects import Kind
from tests.cluster.control_plane import ControlPlane
from tests.cluster.harness_binary import control_plane_binary
from tests.placeholders.world import IMAGE, PRIORITY_CLASS, claim_spec, shape, user_pod

Json = dict[str, Any]

NAMESPACE = "hub"
CLAIMS = {"gpu": claim_spec()}
BESIDE = shape(CLAIMS, cpu="1")
FULL = shape(CLAIMS, cpu="4")
_SEATS = 4
"""GPUs of a node, and placeholders for them."""


@dataclass(frozen=True)
class Start:
    """All that a pod needs is there."""

    name: str
    entries: Json
    cpu: str
    gates: tuple[str, ...] = ()


@dataclass
class Bench:
    """A hub's namespace on a control plane, and a service's reconciler at work there."""

    api: KubernetesApi
    watch: ClusterWatch
    reconciler: Reconciler
    promises: Promises
    policy: Policy = field(default_factory=Policy)
    bound: dict[str, float] = field(default_factory=dict)
    number: int = 0
    refills: bool | None = None
    """Whether placeholders are made anew while they are handed over; None before that."""

    def note(self, change: Change) -> None:
        """When a pod was first seen to have a node."""
        if change.kind is Kind.POD and change.key.name not in self.bound:
            pod = self.watch.snapshot.pods.get(change.key)
            if pod is not None and pod.node_name:
                self.bound[change.key.name] = time.perf_counter()

    def name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}-{self.number:04}"

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                decisions = [(each.decision.kind, each.decision.reason, each.decision.outcome)
                             for each in self.reconciler.decisions.newest(5)]  # fmt: skip
                pods = [(pod.name, pod.node_name, pod.is_deleted) for pod in self.watch.snapshot.pods.values()]
                raise TimeoutError(f"not seen within {seconds:g} s: {what}; decided: {decisions}; pods: {pods[-5:]}")
            await asyncio.sleep(0.01)

    async def nodes(self, count: int, cpu: str, gpus: int) -> None:
        """Fake nodes, with all that users need."""
        for number in range(count):
            name = f"node-{cpu}-{gpus}-{number:03}"
            node = {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "bench/kind": f"{cpu}-{gpus}"}},
                "spec": {},
            }
            await self.api.create(resource_path("v1", "nodes"), node)
            status = {
                "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
                "conditions": [_ready_condition()],
                "images": [{"names": [IMAGE], "sizeBytes": 1}],
            }
            await self.api.patch(resource_path("v1", "nodes", name=name, subresource="status"), {"status": status})
            if gpus:
                await self.api.create(resource_path("resource.k8s.io/v1", "resourceslices"), _slice(name, gpus))

    async def beat(self) -> None:
        """Nodes that are not heard of get a taint."""
        while True:
            for name in list(self.watch.snapshot.nodes):
                path = resource_path("v1", "nodes", name=name, subresource="status")
                await self.api.patch(path, {"status": {"conditions": [_ready_condition()]}})
            await asyncio.sleep(10)

    async def keep(self, wanted: Shape, count: int) -> None:
        """Have so many warm placeholders of a shape, and none of any other."""
        self.refills = None
        headroom = {wanted.id: Headroom(count, 2 * count)}
        self.policy = Policy(shapes={wanted.id: wanted}, headroom=headroom, budget=Budget(1000.0, 1000, 1000))
        self.reconciler.wake()
        await self.until(lambda: len(self.reconciler.view().warm(wanted.id)) == count, f"{count} warm placeholders", 90)

    def current_policy(self) -> Policy:
        """What is wanted; once nothing is to be made any more, what there is."""
        if self.refills is None:
            return self.policy
        free = [each for each in self.reconciler.view().placeholders.values() if each.reservation is None]
        headroom = (
            Headroom(len(free), 1000) if not self.refills else self.policy.headroom_of(next(iter(self.policy.shapes)))
        )
        return replace(self.policy, headroom=dict.fromkeys(self.policy.shapes, headroom))

    async def create(self, name: str, entries: Json, cpu: str, **kind: Any) -> float:
        """A user's pod; when it was asked for."""
        manifest = user_pod(name, entries, cpu, **kind)
        manifest["metadata"]["labels"][labels.SHAPE] = (BESIDE if cpu == "1" else FULL).id
        began = time.perf_counter()
        await self.api.create(resource_path("v1", "pods", NAMESPACE), manifest)
        return began

    async def plain(self) -> Start:
        """Prepares a pod without any claim."""
        return Start(self.name("plain"), {}, "1")

    async def template(self, cpu: str = "1") -> Start:
        """Prepares a pod with a claim of its own: its template."""
        name = self.name("template")
        template = {"metadata": {"name": name}, "spec": {"spec": CLAIMS["gpu"]}}
        await self.api.create(resource_path("resource.k8s.io/v1", "resourceclaimtemplates", NAMESPACE), template)
        return Start(name, {"gpu": {"resourceClaimTemplateName": name}}, cpu)

    async def hand_over(self, wanted: Shape, cpu: str) -> Start:
        """Prepares a pod that takes a warm claim over: asks for the promise, as the spawner does."""
        name = self.name("taker")
        asked = time.perf_counter()
        promise = await self.promises.place(wanted, NAMESPACE, name)
        self.promised.append(time.perf_counter() - asked)
        if not promise.claims:
            raise RuntimeError(f"no warm claim: {promise.placement.reason}")
        entries = {entry: {"resourceClaimName": claim} for entry, claim in promise.claims.items()}
        return Start(name, entries, cpu, tuple(promise.gates))

    async def run(self, start: Start) -> float:
        """Seconds from the pod's creation to its node."""
        began = await self.create(start.name, start.entries, start.cpu, gates=start.gates)
        return await self.wait(start.name, began)

    promised: list[float] = field(default_factory=list)

    async def wait(self, name: str, began: float) -> float:
        await self.until(lambda: name in self.bound, f"{name} on a node")
        return self.bound[name] - began

    async def clear(self) -> None:
        """Delete users' pods and their templates; placeholders are the reconciler's."""
        path = resource_path("v1", "pods", NAMESPACE)
        selector = f"{labels.COMPONENT}={labels.USER_SERVER}"
        await self.api.delete(path, params={"labelSelector": selector}, grace_period_seconds=0)
        await self.api.delete(resource_path("resource.k8s.io/v1", "resourceclaimtemplates", NAMESPACE))
        await self.until(lambda: not self.reconciler.view().users, "all users gone")
        kept = {claim for each in self.reconciler.view().placeholders.values() for claim in each.claims}
        await self.until(lambda: not (self.watch.snapshot.claims.keys() - kept), "no claims left over")


def _ready_condition() -> Json:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready", "status": "True", "reason": "Fake", "message": "fake",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip


def _slice(node: str, gpus: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(gpus)]
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


@contextlib.asynccontextmanager
async def running(plane: ControlPlane) -> AsyncIterator[Bench]:
    async with await KubernetesApi.from_kubeconfig(plane.admin_kubeconfig) as api, ClusterWatch(api) as watch:
        await api.create(resource_path("v1", "namespaces"), {"metadata": {"name": NAMESPACE}})
        device_class = {"metadata": {"name": "gpu.example.com"}, "spec": {}}
        await api.create(resource_path("resource.k8s.io/v1", "deviceclasses"), device_class)
        priority = {"metadata": {"name": PRIORITY_CLASS}, "value": -10}
        await api.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), priority)
        numbers = iter(range(10**6))
        carry_out = CarryOut(
            api,
            PlaceholderSettings(namespace=NAMESPACE, priority_class=PRIORITY_CLASS),
            may_act=lambda: None,
            new_name=lambda each: f"placeholder-{next(numbers):05}",
        )
        bench: Bench
        reconciler = Reconciler(
            watch, lambda: bench.current_policy(), carry_out, DecisionLog(), frozenset((NAMESPACE,))
        )
        bench = Bench(api, watch, reconciler, Promises(api, reconciler, lambda: None))
        watch.on_change(bench.note)
        await watch.wait_synced()
        tasks = [asyncio.create_task(reconciler.run()), asyncio.create_task(bench.beat())]
        try:
            yield bench
            assert not any(task.done() for task in tasks), tasks
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def one_by_one(bench: Bench, options: argparse.Namespace, times: int) -> dict[str, list[float]]:
    """Each kind of start in turn, so that whatever else the machine does meets all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in ("plain", "beside", "full", "template")}
    for wanted, name, cpu in ((BESIDE, "beside", "1"), (FULL, "full", "4")):
        await bench.keep(wanted, times)
        bench.refills = options.refill
        for _ in range(times):
            for kind, prepared in (
                ("plain", bench.plain()),
                (name, bench.hand_over(wanted, cpu)),
                ("template", bench.template()),
            ):
                start = await prepared
                bench.promises.reconciler.promised.clear()  # of those before, whose pods have their nodes
                await asyncio.sleep(0.3)  # the scheduler's limit of requests is not to be met
                found[kind].append(await bench.run(start))
        print(f"one by one, {name}: {options.times} times", flush=True)
        await bench.clear()
        await bench.keep(wanted, 0)
    return found


async def at_once(bench: Bench, options: argparse.Namespace, count: int) -> dict[str, float]:
    """Seconds from the first pod's creation until the last of so many has its node."""
    found: dict[str, float] = {}

    async def measure(name: str, prepare: Callable[[], Awaitable[Start]]) -> None:
        # The limits of clients are buckets: all kinds begin with full ones.
        starts = await asyncio.gather(*(prepare() for _ in range(count)))
        await asyncio.sleep(5)
        began = time.perf_counter()
        await asyncio.gather(*(bench.run(start) for start in starts))
        found[name] = time.perf_counter() - began
        print(f"{count} at once, {name}: {found[name]:.2f} s", flush=True)
        await bench.clear()

    await measure("plain", bench.plain)
    await measure("template", bench.template)
    for wanted, name, cpu in ((BESIDE, "beside", "1"), (FULL, "full", "4")):
        await bench.keep(wanted, count)
        bench.refills = options.refill
        await measure(name, lambda wanted=wanted, cpu=cpu: bench.hand_over(wanted, cpu))  # type: ignore[misc]
        await bench.keep(wanted, 0)
    return found


async def yields(bench: Bench, times: int, gpus: int) -> list[float]:
    """Every GPU is held by a placeholder; users come who did not ask, and their pods are of another shape."""
    await bench.keep(BESIDE, gpus)
    bench.refills = False
    found = []
    for _ in range(times):
        found.append(await bench.run(await bench.template("2")))
        await asyncio.sleep(0.2)
    await bench.clear()
    await bench.keep(BESIDE, 0)
    return found


async def measure(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="hand-over-") as directory:
        plane = ControlPlane(control_plane_binary(print), Path(directory), client_qps=options.qps)
        with plane:
            async with running(plane) as bench:
                gpus = options.nodes * _SEATS
                await bench.nodes(options.nodes, "16", _SEATS)
                await bench.until(lambda: len(bench.watch.snapshot.slices) == options.nodes, "nodes and devices")
                report(options, gpus, *await all_of(bench, options, gpus))


async def all_of(
    bench: Bench, options: argparse.Namespace, gpus: int
) -> tuple[dict[str, list[float]], dict[int, dict[str, float]], list[float], list[float]]:
    single = await one_by_one(bench, options, options.times)
    promised, bench.promised = bench.promised, []
    many = {count: await at_once(bench, options, count) for count in options.at_once}
    return single, many, await yields(bench, options.yields, gpus), promised


def report(
    options: argparse.Namespace,
    gpus: int,
    single: dict[str, list[float]],
    many: dict[int, dict[str, float]],
    yielded: list[float],
    promised: list[float],
) -> None:
    limits = f"{options.qps} requests a second" if options.qps else "Kubernetes' defaults"
    print(f"{options.nodes} nodes, {gpus} GPUs; client limits of scheduler and controllers: {limits}; "
          f"load of the machine: {os.getloadavg()[0]:.1f}")  # fmt: skip
    plain = statistics.median(single["plain"])
    for name, values in single.items():
        median = statistics.median(values)
        ordered = sorted(values)
        p95 = ordered[int(len(ordered) * 0.95)]
        print(
            f"one by one  {name:9} median {median * 1000:7.1f} ms  p95 {p95 * 1000:7.1f} ms  {median / plain:5.2f} x plain"
        )
    print(
        f"one by one  promise   median {statistics.median(promised) * 1000:7.1f} ms  (asked for before the pod is made)"
    )
    for count, found in many.items():
        for name, seconds in found.items():
            print(f"{count:4} at once {name:9} {seconds:6.2f} s  {seconds / found['plain']:5.2f} x plain  "
                  f"{seconds / found['template']:5.2f} x template")  # fmt: skip
    ordered = sorted(yielded)
    print(f"yield: {len(ordered)} times, median {statistics.median(ordered):.2f} s, "
          f"p95 {ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]:.2f} s")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=30)
    parser.add_argument("--times", type=int, default=20, help="of each kind, one by one")
    parser.add_argument("--at-once", type=int, nargs="*", default=[30, 100])
    parser.add_argument("--yields", type=int, default=20)
    parser.add_argument("--refill", action="store_true", help="make placeholders anew meanwhile, as the service does")
    parser.add_argument("--qps", type=int, help="client limit of scheduler and controllers; Kubernetes' own by default")
    asyncio.run(measure(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
