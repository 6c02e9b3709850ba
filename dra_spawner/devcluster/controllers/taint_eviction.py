"""The ``device-taint-eviction`` controller of kube-controller-manager, for the embedded cluster.

It deletes pods whose devices have a taint with the effect NoExecute, of a slice or of a DeviceTaintRule, when the
time for which their claims tolerate it is over (KEP-5055).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import DEVICETAINTRULES, PODS, RESOURCECLAIMS, RESOURCESLICES
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import Clock, timestamp
from dra_spawner.devcluster.controllers.controller import Controller
from dra_spawner.devcluster.controllers.event_writer import EventWriter
from dra_spawner.dra.model.objects import DeviceId, DeviceTaintRule, Taint, Toleration
from dra_spawner.dra.model.taints import tolerates

_EVICTING = "NoExecute"
_Key = tuple[str, str]
"""Namespace and name of a claim."""


class TaintEviction(Controller):
    """Deletes pods that use tainted devices."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._events = EventWriter(store, "device-taint-eviction")
        self._claims: set[_Key] = set()
        """Claims that must be looked at again."""
        self._due: dict[_Key, datetime] = {}
        """When the pods of a claim are deleted, if that is later."""
        self._seen: dict[str, datetime] = {}
        """When a slice whose taints have no time was first seen."""

    def adopt(self) -> None:
        self._add_all()

    def note(self, event: WatchEvent) -> None:
        if event.resource_type in (RESOURCESLICES, DEVICETAINTRULES):
            if event.resource_type is RESOURCESLICES and event.type is WatchEventType.DELETED:
                self._seen.pop(event.object["metadata"]["name"], None)
            self._add_all()
        elif event.resource_type is RESOURCECLAIMS:
            self._claims.add((event.object["metadata"]["namespace"], event.object["metadata"]["name"]))

    def _add_all(self) -> None:
        for claim in self.store.objects(RESOURCECLAIMS):
            self._claims.add((claim["metadata"]["namespace"], claim["metadata"]["name"]))

    def step(self) -> float | None:
        now = self.clock.now()
        self._claims |= {key for key, due in self._due.items() if due <= now}
        while self._claims:
            key = self._claims.pop()
            self._due.pop(key, None)
            claim = self.store.find(RESOURCECLAIMS, *key)
            due = self._eviction_time(claim) if claim is not None else None
            if claim is None or due is None:
                continue
            if due > now:
                self._due[key] = due
            else:
                self._evict(claim)
        if not self._due:
            return None
        return max(0.001, (min(self._due.values()) - now).total_seconds())

    def _eviction_time(self, claim: JsonObject) -> datetime | None:
        """When the pods of a claim must go; None if they may stay."""
        found: list[datetime] = []
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            tolerations = [each for each in result.get("tolerations") or () if each.get("effect") == _EVICTING]
            for taint, added in self._taints(DeviceId(result["driver"], result["pool"], result["device"])):
                seconds = [each.get("tolerationSeconds") for each in tolerations if _tolerates(each, taint)]
                if None in seconds:
                    continue
                found.append(added + timedelta(seconds=max(0, min(seconds, default=0))))
        return min(found, default=None)

    def _taints(self, device: DeviceId) -> Iterator[tuple[Taint, datetime]]:
        """Evicting taints of a device, and when each was added; those of outdated slices do not count."""
        slices = [each for each in self.store.objects(RESOURCESLICES) if _pool(each) == (device.driver, device.pool)]
        newest = max((each["spec"]["pool"].get("generation", 0) for each in slices), default=0)
        for item in slices:
            if item["spec"]["pool"].get("generation", 0) != newest:
                continue
            for published in item["spec"].get("devices") or ():
                for taint in (published.get("taints") or ()) if published["name"] == device.device else ():
                    if taint["effect"] == _EVICTING:
                        yield _taint(taint), self._added(taint, item["metadata"]["name"])
        for rule in self.store.objects(DEVICETAINTRULES):
            taint = rule["spec"]["taint"]
            if taint["effect"] == _EVICTING and DeviceTaintRule.from_json(rule).selects(device):
                yield _taint(taint), self._added(taint, "")

    def _added(self, taint: JsonObject, slice_name: str) -> datetime:
        if taint.get("timeAdded"):
            return datetime.fromisoformat(taint["timeAdded"]).astimezone(UTC)
        return self._seen.setdefault(slice_name, self.clock.now())

    def _evict(self, claim: JsonObject) -> None:
        for consumer in (claim.get("status") or {}).get("reservedFor") or ():
            namespace = claim["metadata"]["namespace"]
            pod = self.store.find(PODS, namespace, consumer["name"]) if consumer["resource"] == "pods" else None
            if pod is None or pod["metadata"]["uid"] != consumer["uid"] or pod["metadata"].get("deletionTimestamp"):
                continue
            self._events.count(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
            try:
                self.store.modify(PODS, namespace, consumer["name"], self._mark, "status")
                self.store.delete(PODS, namespace, consumer["name"])
            except ApiError:
                self._due[namespace, claim["metadata"]["name"]] = self.clock.now() + timedelta(seconds=1)

    def _mark(self, pod: JsonObject) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": timestamp(self.store.now()),
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
        }
        pod.setdefault("status", {}).setdefault("conditions", []).append(condition)


def _pool(item: JsonObject) -> tuple[str, str]:
    return item["spec"]["driver"], item["spec"]["pool"]["name"]


def _taint(taint: JsonObject) -> Taint:
    return Taint(taint["key"], taint.get("value", ""), taint["effect"])


def _tolerates(toleration: JsonObject, taint: Taint) -> bool:
    found = Toleration(
        toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", ""), _EVICTING
    )
    return tolerates(found, taint)
