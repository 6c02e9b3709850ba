"""A real control plane with fake nodes, a service's reconciler at work there, and starts of several kinds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.controller.round.reconciler import Reconciler
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Budget, Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.bench.fake_nodes import DRA, add_node, now_text, prepare, report_all
from tests.cluster.control_plane import ControlPlane
from tests.cluster.instant_kubelet import InstantKubelet
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import claim_spec, shape, user_pod
from tests.placeholders.controller.world import reconciler as placeholder_reconciler
from tests.polling import eventually
from tests.running import running as at_work

__all__ = ["BESIDE", "FULL", "NAMESPACE", "Bench", "NodeKind", "Start", "running"]

Json = dict[str, Any]

NAMESPACE = "hub"
_CLAIMS = DRA, "resourceclaims"
_TEMPLATES = DRA, "resourceclaimtemplates"


@dataclass(frozen=True)
class NodeKind:
    """Nodes with devices of a class that no other kind has."""

    name: str
    cpu: str
    gpus: int

    @property
    def device_class(self) -> str:
        return f"{self.name}.example.com"

    def device_class_object(self) -> Json:
        selector = {"cel": {"expression": f"device.driver == '{self.device_class}'"}}
        return {"metadata": {"name": self.device_class}, "spec": {"selectors": [selector]}}

    def claims(self) -> Json:
        return {"gpu": claim_spec(self.device_class)}


ROOMY = NodeKind("roomy", "16", 4)
TIGHT = NodeKind("tight", "4", 1)
"""One placeholder fills such a node."""
BESIDE = shape(ROOMY.claims(), cpu="1")
FULL = shape(TIGHT.claims(), cpu="4")


@dataclass(frozen=True)
class Start:
    """All that a pod needs is there."""

    name: str
    entries: Json
    shape: Shape = BESIDE
    cpu: str = "1"


@dataclass
class Bench:
    """A hub's namespace on a control plane, and a service's reconciler at work there.

    Attributes
    ----------
    refills
        Whether the service replaces placeholders that were handed over; else the existing ones are enough.
    bound
        When each pod was first seen to have a node.
    reserved
        Seconds that reservations took.
    handed_over
        Warm claims that were handed over to starts; the hub removes them.
    """

    api: KubernetesApi
    watch: ClusterWatch
    reconciler: Reconciler
    reservations: Reservations
    refills: bool
    wanted: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    filling: bool = True
    bound: dict[str, float] = field(default_factory=dict)
    reserved: list[float] = field(default_factory=list)
    number: int = 0
    handed_over: set[str] = field(default_factory=set)

    def note(self, change: Change) -> None:
        if change.kind is Kind.POD and change.key.name not in self.bound:
            pod = self.watch.snapshot.pods.get(change.key)
            if pod is not None and pod.node_name:
                self.bound[change.key.name] = time.perf_counter()

    def name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}-{self.number:05}"

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
        def last() -> str:
            newest = [each.decision for each in self.reconciler.decisions.newest(5)]
            decisions = [(each.kind, each.reason, each.outcome) for each in newest]
            pods = [(pod.name, pod.node_name, pod.is_deleted) for pod in self.watch.snapshot.pods.values()]
            return f"decided: {decisions}; pods: {pods[-5:]}"

        await eventually(condition, what, seconds, shows=last, pause_seconds=0.01)

    # --- nodes -----------------------------------------------------------------------------------------------------

    async def nodes(self, kind: NodeKind, count: int) -> None:
        """Fake nodes, with all that users need."""
        for number in range(count):
            name = f"{kind.name}-{number:03}"
            amounts = {"cpu": kind.cpu, "memory": "64Gi", "pods": "110"}
            await add_node(self.api, name, amounts, {"bench/kind": kind.name}, _slice(name, kind))

    # --- placeholders ----------------------------------------------------------------------------------------------

    async def scale(self, wanted: Shape, count: int) -> None:
        """Have so many warm placeholders of a shape."""
        self.wanted[wanted.id] = (wanted, count)
        self.filling = True
        self.reconciler.expectations.reserved.clear()
        self.reconciler.wake()
        await self.until(
            lambda: len(self.reconciler.view().warm(wanted.id)) == count, f"{count} warm placeholders", 120
        )
        self.filling = False

    def policy(self) -> Policy:
        replicas = {name: ReplicaRange(count, 1000) for name, (_, count) in self.wanted.items()}
        if not self.filling and not self.refills:
            view = self.reconciler.view()
            replicas = {
                name: ReplicaRange(
                    sum(each.reservation is None for each in view.placeholders_of_shape.get(name, ())), 1000
                )
                for name in self.wanted
            }
        shapes = {name: each for name, (each, _) in self.wanted.items()}
        return Policy(
            shapes=shapes,
            replicas=replicas,
            budget=Budget(1000.0, 1000, 1000),
            drivers_prepare_for=drivers_prepare_for(),
        )

    # --- starts ----------------------------------------------------------------------------------------------------

    async def plain(self) -> Start:
        """Prepares a pod without any claim."""
        return Start(self.name("plain"), {})

    async def template(self, cpu: str = "1") -> Start:
        """Prepares a pod with a claim of its own: its template."""
        name = self.name("template")
        template = {"metadata": {"name": name}, "spec": {"spec": ROOMY.claims()["gpu"]}}
        await self.api.create(resource_path(*_TEMPLATES, NAMESPACE), template)
        return Start(name, {"gpu": {"resourceClaimTemplateName": name}}, cpu=cpu)

    async def by_hand(self) -> Start:
        """Prepares a pod that names an allocated claim of another pod. No service has to do with it."""
        name = self.name("hand")
        claim = {"metadata": {"name": name}, "spec": ROOMY.claims()["gpu"]}
        await self.api.create(resource_path(*_CLAIMS, NAMESPACE), claim)
        await self.run(Start(self.name("holder"), {"gpu": {"resourceClaimName": name}}))
        return Start(name, {"gpu": {"resourceClaimName": name}})

    async def handover(self, wanted: Shape) -> Start:
        """Prepares a pod that gets a warm claim, as the spawner does: requests the reservation, and marks the claim."""
        name = self.name("beside" if wanted is BESIDE else "full")
        asked = time.perf_counter()
        reservation = await self.reservations.place(wanted, NAMESPACE, name)
        self.reserved.append(time.perf_counter() - asked)
        if not reservation.claims:
            raise RuntimeError(f"no warm claim: {reservation.placement.reason}")
        self.reconciler.wake()
        for claim in reservation.claims.values():
            marks = {"labels": {names.COMPONENT: names.USER_SERVER}, "annotations": {names.START: name}}
            await self.api.patch(resource_path(*_CLAIMS, NAMESPACE, claim), {"metadata": marks})
            self.handed_over.add(claim)
        entries = {entry: {"resourceClaimName": claim} for entry, claim in reservation.claims.items()}
        return Start(name, entries, wanted, "1" if wanted is BESIDE else "4")

    async def run(self, start: Start) -> float:
        """Seconds from the pod's creation to its node."""
        manifest = user_pod(start.name, start.entries, start.cpu)
        manifest["metadata"]["labels"][names.SHAPE] = start.shape.id
        kind = TIGHT if start.shape is FULL else ROOMY
        manifest["spec"]["nodeSelector"] = {"bench/kind": kind.name}
        began = time.perf_counter()
        await self.api.create(resource_path("v1", "pods", NAMESPACE), manifest)
        await self.until(lambda: start.name in self.bound, f"{start.name} on a node")
        return self.bound[start.name] - began

    async def clear(self) -> None:
        """Delete users' pods, their templates and claims; placeholders are the reconciler's."""
        selector = f"{names.COMPONENT}={names.USER_SERVER}"
        params = {"labelSelector": selector}
        await self.api.delete(resource_path("v1", "pods", NAMESPACE), params=params, grace_period_seconds=0)
        await self.api.delete(resource_path(*_TEMPLATES, NAMESPACE))
        await self.until(lambda: not self.reconciler.view().users, "all users gone")
        for key in self.left_over():
            if key.name.startswith("hand-") or key.name in self.handed_over:
                await self.api.delete(resource_path(*_CLAIMS, NAMESPACE, key.name), missing_ok=True)
        await self.until(lambda: not self.left_over(), "no claims left over")

    def left_over(self) -> set[ObjectKey]:
        """Claims that no placeholder has."""
        in_use = {claim for each in self.reconciler.view().placeholders.values() for claim in each.claims}
        return set(self.watch.snapshot.claims) - in_use

    def failures(self) -> list[str]:
        """Refusals of the API server."""
        found = (each.decision for each in self.reconciler.decisions.newest(10**6))
        return [f"{each.kind} {each.subject}: {each.outcome}" for each in found if each.outcome != "done"]


def _slice(node: str, kind: NodeKind) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(kind.gpus)]
    spec = {"driver": kind.device_class, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


@contextlib.asynccontextmanager
async def running(plane: ControlPlane, roomy: int, tight: int, *, refills: bool) -> AsyncIterator[Bench]:
    """A bench with so many nodes of each kind."""
    async with await KubernetesApi.from_kubeconfig(plane.admin_kubeconfig) as api, ClusterWatch(api) as watch:
        await prepare(api, NAMESPACE, [ROOMY.device_class_object(), TIGHT.device_class_object()])
        bench: Bench
        settings = PlaceholderSettings(namespace=NAMESPACE, priority_class=PRIORITY_CLASS)
        reconciler = placeholder_reconciler(api, watch, settings, lambda: bench.policy(), DecisionLog())
        bench = Bench(api, watch, reconciler, Reservations(reconciler), refills)
        watch.on_change(bench.note)
        await watch.wait_synced()
        await bench.nodes(ROOMY, roomy)
        await bench.nodes(TIGHT, tight)
        await bench.until(lambda: len(watch.snapshot.slices) == roomy + tight, "nodes and devices")
        kubelet = InstantKubelet(api, watch, now_text)
        async with at_work(reconciler.run(), report_all(api, lambda: list(watch.snapshot.nodes), 25), kubelet.run()):
            yield bench
