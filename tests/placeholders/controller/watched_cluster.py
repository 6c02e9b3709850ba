"""Objects of a cluster and a clock, without an API: a test changes objects, and watches show the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from dra_spawner import names
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.service.unstarted_watch import UnstartedWatch

START = datetime(2026, 3, 2, 9, tzinfo=UTC)

Json = dict[str, Any]


def stamp(moment: datetime) -> str:
    """As the API server writes it: whole seconds."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


class WatchedCluster:
    """See the module."""

    def __init__(self) -> None:
        self.now = START
        self.objects: dict[tuple[Kind, ObjectKey], Json] = {}
        self.watches: list[UnstartedWatch] = []

    def watch(self) -> UnstartedWatch:
        return self.show(UnstartedWatch())

    def show(self, watch: UnstartedWatch) -> UnstartedWatch:
        """A watch shows all objects, and their changes from now on."""
        for (kind, _), obj in self.objects.items():
            watch.put(kind, obj)
        self.watches.append(watch)
        return watch

    def after(self, seconds: float) -> Self:
        self.now += timedelta(seconds=seconds)
        return self

    def put(self, kind: Kind, obj: Json) -> None:
        key = ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self.objects[kind, key] = obj
        for watch in self.watches:
            watch.put(kind, obj)

    def remove(self, kind: Kind, name: str, namespace: str = "hub") -> None:
        key = ObjectKey("" if kind is Kind.NODE else namespace, name)
        del self.objects[kind, key]
        for watch in self.watches:
            watch.remove(kind, key)

    def pod(
        self, user: str, node: str = "", phase: str = "Pending", created: datetime | None = None, **more: Any
    ) -> None:
        """A server's pod; the API server stamps whole seconds."""
        before = self.objects.get((Kind.POD, ObjectKey(more.get("namespace", "hub"), f"jupyter-{user}")), {})
        made = stamp(created) if created else before.get("metadata", {}).get("creationTimestamp") or stamp(self.now)
        conditions: dict[str, Json] = {each["type"]: each for each in before.get("status", {}).get("conditions", ())}

        def turn(condition: str, status: str, message: str = "") -> None:
            if conditions.get(condition, {}).get("status") != status:
                new = {"type": condition, "status": status, "lastTransitionTime": stamp(self.now)}
                conditions[condition] = {**new, "reason": "Unschedulable", "message": message} if message else new

        turn("PodScheduled", "True" if node else "False", "" if node else more.get("says", "no node has room"))
        turn("Ready", str(phase == "Running"))
        metadata = {
            "name": f"jupyter-{user}",
            "namespace": more.get("namespace", "hub"),
            "uid": more.get("uid", f"uid-{user}"),
            "labels": {
                names.COMPONENT: more.get("component", names.USER_SERVER),
                names.SHAPE: "shape",
                **more.get("labels", {}),
            },
            "annotations": {names.USERNAME: user},
            "creationTimestamp": made,
        }
        spec: Json = {"containers": [{"name": "notebook", "image": "example.com/a:1"}]}
        if node:
            spec["nodeName"] = node
        if claim := more.get("claim"):
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
        status = {"phase": phase, "conditions": list(conditions.values())}
        self.put(Kind.POD, {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})

    def node(
        self,
        name: str,
        created: datetime | None = None,
        ready: bool = True,
        kind: str = "g4",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        before = self.objects.get((Kind.NODE, ObjectKey("", name)), {})
        made = stamp(created) if created else before.get("metadata", {}).get("creationTimestamp") or stamp(self.now)
        named = {**({names.INSTANCE_TYPE: kind} if kind else {}), **(labels or {})}
        metadata = {"name": name, "uid": f"uid-{name}", "labels": named, "creationTimestamp": made}
        status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        self.put(Kind.NODE, {"kind": "Node", "metadata": metadata, "status": status})

    def slice(
        self, node: str, number: int = 0, of: int = 1, driver: str = "gpu.example.com", generation: int = 1
    ) -> None:
        pool = {"name": node, "generation": generation, "resourceSliceCount": of}
        spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": f"gpu-{number}"}]}
        metadata = {"name": f"{node}-{driver}-{generation}-{number}"}
        self.put(Kind.RESOURCE_SLICE, {"kind": "ResourceSlice", "metadata": metadata, "spec": spec})

    def claim(self, name: str, component: str = "", results: Sequence[Json] = ()) -> None:
        metadata = {"name": name, "namespace": "hub", "uid": name, "labels": {names.COMPONENT: component}}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
        status = {"allocation": {"devices": {"results": list(results)}}} if results else {}
        self.put(Kind.RESOURCE_CLAIM, {"kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": status})
