"""A big cluster with a hub, as a process of its own: events of its watches, and results of decisions.

Everything crosses the process's border as lines of JSON, as it would come from an API server, so that the follower pays
for its own caches and for nothing else.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder, DeletePlaceholder, LabelNode, LabelPod
from dra_spawner.placeholders.planner.targets.node_conditions import requiring_readiness
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.bench.event_stream import NAMESPACE, Cluster
from tests.bench.fleet import DRIVER
from tests.bench.recorded_cluster import Event

Json = dict[str, Any]

SIZES = (5, 20)
"""Shares in GiB that users may choose; each is a shape."""
_KIND_LABEL = "node.kubernetes.io/instance-type"
_STUCK = 3
_SETTINGS = PlaceholderSettings(namespace=NAMESPACE)


class Hub(Cluster):
    """Users' servers with shares of devices, nodes that come and go, and placeholders as they are decided."""

    def __init__(self, nodes: int, pods: int, seed: int) -> None:
        self.sizes: dict[str, int] = {}
        self.ready = True
        self.placeholder_objects: dict[str, tuple[Json, Json]] = {}
        self.node_labels: dict[str, dict[str, str]] = {}
        self.created: dict[str, str] = {}
        super().__init__(nodes, pods, seed)
        self.shapes = shapes(self)
        self.numbers = itertools.count(1)
        self.new: deque[Event] = deque()

    # --- objects ---------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Json:
        found = super().node(name)
        own = self.node_labels.setdefault(name, {names.IMAGES_READY: names.TRUE} if self.ready else {})
        found["metadata"]["labels"] |= {_KIND_LABEL: "gpu-8", **own}
        found["metadata"]["creationTimestamp"] = self.created.get(name, "2026-11-21T10:00:00Z")
        return found

    def pod(self, name: str, node: str, phase: str = "Pending") -> Json:
        found = super().pod(name, node, phase)
        shape = self.shapes_by_size[self.sizes.setdefault(name, self.random.choice(SIZES))]
        found["metadata"]["labels"] |= {names.SHAPE: shape}
        found["spec"]["affinity"] = requiring_readiness({})
        return found

    @property
    def shapes_by_size(self) -> dict[int, str]:
        known: dict[int, str] | None = self.__dict__.get("_by_size")
        if known is None:
            known = self.__dict__["_by_size"] = dict.fromkeys(SIZES, "")
            for size in SIZES:
                self.sizes["anybody"] = size
                known[size] = _shape(self, size).id
        return known

    def lists(self) -> Iterator[tuple[Kind, Json]]:
        yield from super().lists()
        self.ready = False

    # --- events ----------------------------------------------------------------------------------------------------

    def happen(self, count: int) -> Iterator[Event]:
        """Events, with results of decisions among them."""
        for number in range(_STUCK):  # more than there is: they wait for a node, all the time
            yield from self.stuck(f"jupyter-waits-{number}")
        for label, kind, event_type, obj in self.events(count):
            yield _event(label, kind, event_type, obj)
            if self.random.random() < 0.01:
                yield from self.node_comes()

    def next_of(self, stream: Iterator[Event]) -> Event | None:
        """Results of decisions come first."""
        if not self.new:
            return next(stream, None)
        event = self.new.popleft()
        return replace(event, more=bool(self.new))

    def stuck(self, name: str) -> Iterator[Event]:
        self.sizes[name] = SIZES[-1]
        pod = self.pod(name, "")
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000"
        yield _event("pod created", Kind.POD, "ADDED", pod)
        self.pods[name] = pod
        yield _event("claim created", Kind.RESOURCE_CLAIM, "ADDED", self.claim(name, ""))
        del self.pods[name]

    def node_comes(self) -> Iterator[Event]:
        """A new node: its slices come a little later than the node itself."""
        name = f"new-{next(self.numbers)}"
        self.created[name] = "2026-11-21T12:00:00Z"
        yield _event("node comes", Kind.NODE, "ADDED", self.node(name))
        self.names.append(name)
        item = self.complete(self.fleet.slice_of(name))
        self.slices.append(item)
        yield _event("slice published", Kind.RESOURCE_SLICE, "ADDED", item)

    # --- decisions -------------------------------------------------------------------------------------------------

    def executor(self, action: Action) -> None:
        """Results of the API server, the scheduler and the claim controller."""
        match action:
            case CreatePlaceholder():
                self._create(self.shapes[action.shape])
            case DeletePlaceholder():
                pod, claim = self.placeholder_objects.pop(action.key.name)
                self._emit("claim gone", Kind.RESOURCE_CLAIM, "DELETED", claim)
                self._emit("placeholder gone", Kind.POD, "DELETED", pod)
            case LabelNode():
                own = self.node_labels[action.node]
                own.pop(action.label, None)
                if action.value is not None:
                    own[action.label] = action.value
                self._emit("node labelled", Kind.NODE, "MODIFIED", self.node(action.node))
            case LabelPod():
                found = self.pods.get(action.key.name)
                if found is not None:
                    found["metadata"]["labels"][action.label] = action.value
                    self._emit("pod labelled", Kind.POD, "MODIFIED", found)
            case _:
                raise AssertionError(f"nobody takes a claim over here, and none is left over: {action}")

    def _create(self, shape: Shape) -> None:
        name = f"placeholder-{next(self.numbers)}"
        node, device = self.random.choice(self.names), f"gpu-{self.random.randrange(8)}"
        pod = self.complete(placeholder_pod(shape, name, _SETTINGS))
        (manifest,) = placeholder_claims(shape, name, _SETTINGS)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        manifest["metadata"] |= {"ownerReferences": [owner]}
        size = shape.claims["gpu"]["devices"]["requests"][0]["exactly"]["capacity"]["requests"]["memory"]
        result = {
            "request": "gpu", "driver": DRIVER, "pool": node, "device": device,
            "shareID": f"{self.random.getrandbits(128):032x}", "consumedCapacity": {"memory": size},
        }  # fmt: skip
        reserved = [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        claim = self.complete({**manifest, "status": status})
        self._emit("claim created", Kind.RESOURCE_CLAIM, "ADDED", claim)
        self._emit("placeholder created", Kind.POD, "ADDED", pod)
        pod = {**pod, "spec": {**pod["spec"], "nodeName": node, "priority": -10}}
        self.placeholder_objects[name] = pod, claim
        self._emit("placeholder bound", Kind.POD, "MODIFIED", pod)

    def _emit(self, label: str, kind: Kind, event_type: str, obj: Json) -> None:
        self.new.append(_event(label, kind, event_type, self.complete(obj)))


def _event(label: str, kind: Kind, event_type: str, obj: Json) -> Event:
    return Event(label, kind, json.dumps({"type": event_type, "object": obj}).encode())


def _shape(hub: Hub, size: int) -> Shape:
    pod = Cluster.pod(hub, "anybody", "")
    pod["spec"]["affinity"] = requiring_readiness({})
    claim = hub.fleet.claim("anybody", size)["spec"]
    return shape_of(pod, {"gpu": claim}, frozenset((names.IMAGES_READY,)))


def shapes(hub: Hub) -> dict[str, Shape]:
    """Choices of users."""
    found = [_shape(hub, size) for size in SIZES]
    return {each.id: each for each in found}


class HubProcess:
    """The same, in another process."""

    def __init__(self, nodes: int, pods: int, events: int, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, nodes, pods, events, seed), daemon=True)
        self._process.start()
        self.shapes: dict[str, Shape] = self._ours.recv()
        self.without_placeholders = self.shapes
        """Of which nothing is kept at the first event."""
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)
        """Time of the next decision; each takes 50 ms of it."""

    def __iter__(self) -> Iterator[Event]:
        """First all existing objects, then the events."""
        while True:
            self._ours.send(())
            event = self._ours.recv()
            if event is None:
                return
            yield event

    def executor(self, actions: tuple[Action, ...]) -> None:
        self.now += timedelta(milliseconds=50)
        if actions:
            self._ours.send(actions)


def _serve(connection: Connection, nodes: int, pods: int, events: int, seed: int) -> None:
    hub = Hub(nodes, pods, seed)
    connection.send(hub.shapes)
    listed = (_event("list", kind, "ADDED", obj) for kind, obj in hub.lists())
    stream = itertools.chain(listed, hub.happen(events))
    while True:
        actions = connection.recv()
        if actions:
            for action in actions:
                hub.executor(action)
            continue
        event = hub.next_of(stream)
        connection.send(event)
        if event is None:
            return
