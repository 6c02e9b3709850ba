"""Events of the watches of a real, big cluster while users come and go, recorded for `tests.bench.decisions`.

A real control plane gets nodes that nobody runs, each with eight devices, and users' servers with shares of them. Then a
reconciler keeps placeholders there, users come by reservations and others go. Every node reports its status every five
minutes, as kubelets do; leases are renewed more often, but no watch follows leases. The events of the reconciler's
watch are written to a file: a JSON object a line, with its time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.planner.actions import Action
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.bench.event_stream import NAMESPACE
from tests.bench.fake_nodes import DRA, add_node, now_text, prepare, report_all
from tests.bench.fleet import Fleet, held
from tests.cluster.control_plane import ControlPlane
from tests.cluster.harness_binary import control_plane_binary
from tests.cluster.instant_kubelet import InstantKubelet
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import shape, user_pod
from tests.placeholders.controller.world import reconciler as placeholder_reconciler
from tests.polling import eventually
from tests.running import running

Json = dict[str, Any]

SIZES = (5, 20)
"""Shares in GiB that users may choose; each is a shape."""
_OTHER_SIZES = (10, 15)
_AT_ONCE = 24
_REPORT_SECONDS = 300.0
_FILE = "recorded.jsonl"
_FLEET = Fleet(0, shared=True)


def _claims(size: int) -> dict[str, Json]:
    return {"gpu": _FLEET.claim("anybody", size)["spec"]}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch; ``list`` is the label of objects that exist at the beginning."""

    label: str
    kind: Kind
    line: bytes
    more: bool = False
    """Whether more results of one decision are about to come: the next decision waits for them."""


SHAPES = {size: shape(_claims(size)) for size in SIZES}


class _RecordingWatch(ClusterWatch):
    """Writes down its events."""

    file: IO[str]
    has_begun = False
    """Whether the initial objects are complete."""

    def put(self, kind: Kind, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        is_new = self.observed(kind, ObjectKey(metadata.get("namespace", ""), metadata["name"])) is None
        self._write("ADDED" if is_new else "MODIFIED", kind, obj)
        super().put(kind, obj)

    def remove(self, kind: Kind, key: ObjectKey) -> None:
        self._write("DELETED", kind, {"metadata": {"name": key.name, "namespace": key.namespace}})
        super().remove(kind, key)

    def _write(self, event_type: str, kind: Kind, obj: JsonObject) -> None:
        recorded = {"at": time.time(), "has_begun": self.has_begun, "kind": kind, "type": event_type, "object": obj}
        self.file.write(json.dumps(recorded) + "\n")


class _Cluster:
    """Makes the objects, and lets users come and go."""

    def __init__(self, api: KubernetesApi, nodes: int, seed: int) -> None:
        self.api = api
        self.random = random.Random(seed)
        self.fleet = Fleet(nodes, shared=True, seed=seed)
        self.names = [node["metadata"]["name"] for node in self.fleet.nodes]
        self.users: list[str] = []
        self.numbers = itertools.count()

    async def load(self, users: int) -> None:
        """Everything that is there before anybody looks."""
        await prepare(self.api, NAMESPACE, self.fleet.classes)
        for size in SIZES:
            template = {"metadata": {"name": f"size-{size}"}, "spec": {"spec": _claims(size)["gpu"]}}
            await self.api.create(resource_path(DRA, "resourceclaimtemplates", NAMESPACE), template)
        amounts, labels = {"cpu": "64", "memory": "256Gi", "pods": "110"}, {names.INSTANCE_TYPE: "gpu-8"}
        nodes = zip(self.names, self.fleet.slices, strict=True)
        await _all(add_node(self.api, name, amounts, labels, devices) for name, devices in nodes)
        await _all(self._resident(number) for number in range(users))

    async def _resident(self, number: int) -> None:
        """A user who has been there for long: the server is on its node, its claim allocated."""
        name, size = f"jupyter-resident-{number}", self.random.choice(SIZES)
        node, device = self.names[number % len(self.names)], f"gpu-{number // len(self.names) % 8}"
        pod = await self._pod(name, {"gpu": {"resourceClaimName": name}}, size, nodeName=node)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        claim = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": _claims(size)["gpu"]}
        await self.api.create(resource_path(DRA, "resourceclaims", NAMESPACE), claim)
        path = resource_path(DRA, "resourceclaims", NAMESPACE, name, "status")
        await self.api.patch(path, {"status": held(node, device, owner, f"{size}Gi", number + 1)})

    async def _pod(self, name: str, entries: Json, size: int, **spec: Any) -> Json:
        manifest = user_pod(name, entries)
        manifest["metadata"]["labels"][names.SHAPE] = SHAPES[size].id
        manifest["spec"] |= spec
        pod = await self.api.create(resource_path("v1", "pods", NAMESPACE), manifest)
        self.users.append(name)
        return pod

    async def arrive(self, reservations: Reservations) -> None:
        """A user comes as the spawner brings one."""
        name, size = f"jupyter-user-{next(self.numbers)}", self.random.choice(SIZES)
        reservation = await reservations.place(SHAPES[size], NAMESPACE, name)
        entries = {entry: {"resourceClaimName": claim} for entry, claim in reservation.claims.items()}
        await self._pod(name, entries or {"gpu": {"resourceClaimTemplateName": f"size-{size}"}}, size)

    async def leave(self) -> None:
        name = self.users.pop(self.random.randrange(len(self.users)))
        await self.api.delete(resource_path("v1", "pods", NAMESPACE, name), grace_period_seconds=0)


async def _all(work: Iterable[Awaitable[None]]) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(each: Awaitable[None]) -> None:
        async with limit:
            await each

    await asyncio.gather(*(one(each) for each in work))


def policy(placeholders: int) -> Policy:
    """Wanted placeholders, the same number of each shape."""
    replicas = {each.id: ReplicaRange(placeholders, 2 * placeholders) for each in SHAPES.values()}
    return Policy(
        shapes={each.id: each for each in SHAPES.values()},
        replicas=replicas,
        drivers_prepare_for=drivers_prepare_for(),
    )


def record(directory: Path, nodes: int, users: int, placeholders: int, coming: int, seed: int) -> None:
    """Record into a directory.

    Parameters
    ----------
    users
        Users at the beginning.
    placeholders
        Of each shape.
    coming
        Users who come while events are recorded; as many go.
    """
    binary = control_plane_binary()
    with ControlPlane(binary, directory / "plane", client_qps=1000) as plane:
        asyncio.run(_record(plane, directory / _FILE, nodes, users, placeholders, coming, seed))


async def _record(
    plane: ControlPlane, file: Path, nodes: int, users: int, placeholders: int, coming: int, seed: int
) -> None:
    wanted = policy(placeholders)
    async with await KubernetesApi.from_kubeconfig(plane.admin_kubeconfig, timeout_seconds=30) as api:
        cluster = _Cluster(api, nodes, seed)
        async with running(report_all(api, lambda: cluster.names, _REPORT_SECONDS)):
            began = time.perf_counter()
            await cluster.load(users)
            seconds = time.perf_counter() - began
            print(f"{nodes} nodes and {users} servers made on a real control plane in {seconds:.0f} s", flush=True)
            watch = _RecordingWatch(api)
            kubelet = InstantKubelet(api, watch, now_text)
            with file.open("w") as watch.file:
                async with watch, running(kubelet.run()):
                    await watch.wait_synced()
                    await _come_and_go(cluster, watch, wanted, placeholders, coming)


async def _come_and_go(
    cluster: _Cluster, watch: _RecordingWatch, wanted: Policy, placeholders: int, coming: int
) -> None:
    settings = PlaceholderSettings(namespace=NAMESPACE, priority_class=PRIORITY_CLASS)
    reconciler = placeholder_reconciler(cluster.api, watch, settings, lambda: wanted, DecisionLog())
    async with running(reconciler.run()):
        await eventually(
            lambda: all(len(reconciler.view().warm(each)) >= placeholders for each in wanted.shapes),
            "all placeholders are warm",
            within_seconds=300,
            pause_seconds=0.1,
        )
        watch.has_begun = True
        reservations = Reservations(reconciler)
        for _ in range(coming):
            await asyncio.gather(cluster.arrive(reservations), cluster.leave(), asyncio.sleep(0.1))
        await asyncio.sleep(2)


class Recording:
    """The same again, line by line; decisions of now do not change the recording."""

    def __init__(self, directory: Path) -> None:
        self.shapes: dict[str, Shape] = dict(policy(1).shapes)
        without_placeholders = (shape(_claims(size)) for size in _OTHER_SIZES)
        self.without_placeholders: dict[str, Shape] = {each.id: each for each in without_placeholders}
        self.now = datetime.now(UTC)
        """Time of the last event."""
        self._file = directory / _FILE

    def executor(self, actions: tuple[Action, ...]) -> None:
        """The cluster that was recorded has decided for itself."""

    def __iter__(self) -> Iterator[Event]:
        with self._file.open() as lines:
            for line in lines:
                recorded = json.loads(line)
                self.now = datetime.fromtimestamp(recorded["at"], UTC)
                kind = Kind(recorded["kind"])
                label = f"{kind} {recorded['type'].lower()}" if recorded["has_begun"] else "list"
                yield Event(label, kind, json.dumps({"type": recorded["type"], "object": recorded["object"]}).encode())
