"""The ``resourceclaim`` controller of kube-controller-manager, for the embedded cluster.

It creates claims from templates, removes consumers that are gone, deallocates claims without consumers, and deletes
claims of ended pods.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Hashable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import Clock
from dra_spawner.devcluster.controllers.controller import Controller
from dra_spawner.devcluster.controllers.event_writer import EventWriter

log = logging.getLogger(__name__)

_MAX_BASE = 57  # a DNS label without a hyphen and five random characters


class _Kind(StrEnum):
    POD = "pod"
    CLAIM = "claim"


_Key = tuple[_Kind, str, str]
"""Kind, namespace and name of a queued object."""
_Name = tuple[str, str]
"""Namespace and name."""


class _ClaimNotCreated(Exception):
    """Raised if a claim cannot be created; the message is that of the pod's event."""


class ClaimController(Controller):
    """Creates, deallocates and deletes claims; removes their consumers that are gone."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._queue: WorkQueue[_Key] = WorkQueue(clock.now)
        self._events = EventWriter(store, "resource_claim")
        self._pods_of_claim: dict[_Name, dict[str, None]] = {}
        self._pods_of_template: dict[_Name, dict[str, None]] = {}

    def adopt(self) -> None:
        for pod in self.store.objects(PODS):
            self._pod_changed(None, pod)
        for claim in self.store.objects(RESOURCECLAIMS):
            self._queue.add((_Kind.CLAIM, *_name(claim)))

    def note(self, event: WatchEvent) -> None:
        gone = event.type is WatchEventType.DELETED
        if event.resource_type is PODS:
            self._pod_changed(event.previous, None if gone else event.object)
        elif event.resource_type is RESOURCECLAIMS:
            if not gone:
                self._queue.add((_Kind.CLAIM, *_name(event.object)))
            self._add_pods(self._pods_of_claim, _name(event.object))
        elif event.resource_type is RESOURCECLAIMTEMPLATES and not gone:
            self._add_pods(self._pods_of_template, _name(event.object))

    def step(self) -> float | None:
        key = self._queue.pop()
        if key is not None:
            kind, namespace, name = key
            try:
                if kind is _Kind.POD:
                    self._sync_pod(namespace, name)
                else:
                    self._sync_claim(namespace, name)
            except (ApiError, _ClaimNotCreated) as error:
                log.debug("Sync failed, trying again: %s=%s/%s error=%s", kind, namespace, name, error)
                self._queue.retry(key)
            except Exception:
                self._queue.retry(key)
                raise
            else:
                self._queue.forget(key)
        return self._queue.seconds_until_due()

    def _pod_changed(self, before: JsonObject | None, after: JsonObject | None) -> None:
        pod = after or before
        assert pod is not None
        if not pod["spec"].get("resourceClaims"):
            return
        for old in (before,) if before is not None else ():
            for index, name in self._references(old):
                index.get(name, {}).pop(old["metadata"]["name"], None)
                if name in index and not index[name]:
                    del index[name]
        for index, name in self._references(after) if after is not None else ():
            index.setdefault(name, {})[pod["metadata"]["name"]] = None
        if after is None or _is_done(after):
            for claim in _claim_names(pod):
                self._queue.add((_Kind.CLAIM, pod["metadata"]["namespace"], claim))
        if after is not None:
            self._queue.add((_Kind.POD, *_name(after)))

    def _references(self, pod: JsonObject) -> Iterator[tuple[dict[_Name, dict[str, None]], _Name]]:
        namespace = pod["metadata"]["namespace"]
        for claim in _claim_names(pod):
            yield self._pods_of_claim, (namespace, claim)
        for entry in pod["spec"].get("resourceClaims") or ():
            if "resourceClaimTemplateName" in entry:
                yield self._pods_of_template, (namespace, entry["resourceClaimTemplateName"])

    def _add_pods(self, index: dict[_Name, dict[str, None]], name: _Name) -> None:
        for pod in index.get(name, ()):
            self._queue.add((_Kind.POD, name[0], pod))

    def _sync_pod(self, namespace: str, name: str) -> None:
        """Create missing claims of a pod; add a pod that was bound without the scheduler to its claims' consumers."""
        pod = self.store.find(PODS, namespace, name)
        if pod is None or pod["metadata"].get("deletionTimestamp") or _is_done(pod):
            return
        created: dict[str, str] = {}
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                claim = self._ensure_claim(pod, entry)
            except (ApiError, _ClaimNotCreated) as error:
                message = f"PodResourceClaim {entry['name']}: {error}"
                self._events.count(pod, "Warning", "FailedResourceClaimCreation", message)
                raise
            if claim is not None:
                created[entry["name"]] = claim
        if created:
            pod = self._write_claim_names(pod, created)
        if pod["spec"].get("nodeName"):
            for claim_name in _claim_names(pod):
                self._reserve(pod, claim_name)

    def _ensure_claim(self, pod: JsonObject, entry: JsonObject) -> str | None:
        """The name of this entry's claim if the pod's status lacks it, after creating the claim if necessary.

        Raises
        ------
        _ClaimNotCreated
            If the template does not exist, or the API refuses the claim.
        """
        if "resourceClaimTemplateName" not in entry:
            return None
        namespace = pod["metadata"]["namespace"]
        status = _claim_status(pod, entry["name"])
        if status is not None:
            name = status.get("resourceClaimName")
            if name is None:
                return None  # not needed
            claim = self.store.find(RESOURCECLAIMS, namespace, name)
            if claim is not None and _is_controlled_by(claim, pod):
                return None
        orphan = self._orphan(pod, entry["name"])
        if orphan is not None:
            return orphan
        template = self.store.find(RESOURCECLAIMTEMPLATES, namespace, entry["resourceClaimTemplateName"])
        if template is None:
            name = entry["resourceClaimTemplateName"]
            kind = RESOURCECLAIMTEMPLATES
            raise _ClaimNotCreated(f'resource claim template "{name}": {kind.singular}.{kind.group} "{name}" not found')
        try:
            created = self.store.create(RESOURCECLAIMS, _claim_from(template, pod, entry["name"]), namespace)
        except ApiError as error:
            raise _ClaimNotCreated(f"create ResourceClaim : {error.message}") from error
        return str(created["metadata"]["name"])

    def _orphan(self, pod: JsonObject, entry_name: str) -> str | None:
        """Name of a claim that was created for the pod, but is missing in the pod's status; None if there is none."""
        for claim in self.store.objects(RESOURCECLAIMS, pod["metadata"]["namespace"]):
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(names.POD_CLAIM_NAME) == entry_name and _is_controlled_by(claim, pod):
                return str(claim["metadata"]["name"])
        return None

    def _write_claim_names(self, pod: JsonObject, created: dict[str, str]) -> JsonObject:
        def change(new: JsonObject) -> None:
            statuses = new.setdefault("status", {}).setdefault("resourceClaimStatuses", [])
            statuses[:] = [status for status in statuses if status["name"] not in created]
            statuses += [{"name": name, "resourceClaimName": claim} for name, claim in created.items()]

        return self.store.modify(PODS, *_name(pod), change, "status")

    def _reserve(self, pod: JsonObject, claim_name: str) -> None:
        metadata = pod["metadata"]
        claim = self.store.find(RESOURCECLAIMS, metadata["namespace"], claim_name)
        if claim is None or "allocation" not in claim.get("status", {}):
            return
        consumers = claim["status"].get("reservedFor") or []
        if any(consumer["uid"] == metadata["uid"] for consumer in consumers):
            return

        def change(new: JsonObject) -> None:
            consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
            new["status"].setdefault("reservedFor", []).append(consumer)

        self.store.modify(RESOURCECLAIMS, *_name(claim), change, "status")

    def _sync_claim(self, namespace: str, name: str) -> None:
        """Remove consumers that are gone; deallocate an unused claim, and delete it if its pod has ended."""
        claim = self.store.find(RESOURCECLAIMS, namespace, name)
        if claim is None:
            return
        consumers = claim.get("status", {}).get("reservedFor") or []
        remaining = [consumer for consumer in consumers if self._is_consumer(namespace, consumer)]
        protected = names.DELETE_PROTECTION in (claim["metadata"].get("finalizers") or ())
        if len(remaining) < len(consumers):
            claim = self._set_consumers(claim, remaining, deallocate=protected and not remaining)
            if protected and "allocation" not in claim["status"]:
                claim = self._unprotect(claim)
        elif protected and claim["metadata"].get("deletionTimestamp") and not remaining:
            if "allocation" in claim.get("status", {}):
                claim = self._set_consumers(claim, [], deallocate=True)
            claim = self._unprotect(claim)
        if not remaining:
            self._delete_if_unwanted(claim)

    def _is_consumer(self, namespace: str, consumer: JsonObject) -> bool:
        """Whether a consumer still exists; a consumer that is no pod counts as existing."""
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True
        pod = self.store.find(PODS, namespace, consumer["name"])
        return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not _is_done(pod)

    def _set_consumers(self, claim: JsonObject, consumers: list[JsonObject], *, deallocate: bool) -> JsonObject:
        def change(new: JsonObject) -> None:
            new["status"]["reservedFor"] = consumers
            gone = (["reservedFor"] if not consumers else []) + (["allocation", "devices"] if deallocate else [])
            for field in gone:
                new["status"].pop(field, None)

        return self.store.modify(RESOURCECLAIMS, *_name(claim), change, "status")

    def _unprotect(self, claim: JsonObject) -> JsonObject:
        def change(new: JsonObject) -> None:
            new["metadata"]["finalizers"].remove(names.DELETE_PROTECTION)

        return self.store.modify(RESOURCECLAIMS, *_name(claim), change)

    def _delete_if_unwanted(self, claim: JsonObject) -> None:
        """Delete the generated claim of an ended pod, before the pod itself is deleted."""
        namespace, name = _name(claim)
        owner = _controller(claim)
        if owner is None or self.store.find(RESOURCECLAIMS, namespace, name) is None:
            return
        pod = self.store.find(PODS, namespace, owner["name"])
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or _is_done(pod)):
            self.store.delete(RESOURCECLAIMS, namespace, name)


def claim_generate_name(pod_name: str, entry_name: str) -> str:
    """``metadata.generateName`` of a pod's generated claim: both names, shortened in proportion."""
    base = f"{pod_name}-{entry_name}-"
    if len(base) <= _MAX_BASE:
        return base
    pod_part = pod_name[: len(pod_name) * _MAX_BASE // len(base)]
    return f"{pod_part}-{entry_name[: len(entry_name) * _MAX_BASE // len(base)]}"


def _claim_from(template: JsonObject, pod: JsonObject, entry_name: str) -> JsonObject:
    template_metadata = template["spec"].get("metadata") or {}
    pod_metadata = pod["metadata"]
    metadata: JsonObject = {
        "generateName": claim_generate_name(pod_metadata["name"], entry_name),
        "annotations": {**(template_metadata.get("annotations") or {}), names.POD_CLAIM_NAME: entry_name},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod_metadata["name"],
                "uid": pod_metadata["uid"],
                "controller": True,
            }
        ],
    }
    if template_metadata.get("labels"):
        metadata["labels"] = dict(template_metadata["labels"])
    return {"metadata": metadata, "spec": template["spec"]["spec"]}


def _name(obj: JsonObject) -> _Name:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _is_done(pod: JsonObject) -> bool:
    """Whether all its containers have ended for good, or it is being deleted without a node."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")


def _claim_status(pod: JsonObject, entry_name: str) -> JsonObject | None:
    statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
    return next((status for status in statuses if status["name"] == entry_name), None)


def _claim_names(pod: JsonObject) -> Iterator[str]:
    for entry in pod["spec"].get("resourceClaims") or ():
        status = _claim_status(pod, entry["name"]) if "resourceClaimTemplateName" in entry else None
        name = entry.get("resourceClaimName") or (status or {}).get("resourceClaimName")
        if name:
            yield name


def _controller(claim: JsonObject) -> JsonObject | None:
    """The owner reference to the pod of a generated claim."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod"):
            return dict(owner)
    return None


def _is_controlled_by(claim: JsonObject, pod: JsonObject) -> bool:
    owner = _controller(claim)
    return owner is not None and owner["uid"] == pod["metadata"]["uid"]


K = TypeVar("K", bound=Hashable)

# client-go's default for controllers
FIRST_DELAY = timedelta(milliseconds=5)
LONGEST_DELAY = timedelta(seconds=1000)


class WorkQueue(Generic[K]):
    """Keys in the order of their addition; failed keys return after a delay that doubles."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._ready: dict[K, None] = {}
        self._later: list[tuple[datetime, int, K]] = []
        self._failures: dict[K, int] = {}
        self._sequence = 0

    def add(self, key: K) -> None:
        """Add a key."""
        self._ready[key] = None

    def retry(self, key: K) -> None:
        """Add a failed key with a delay, which doubles each time."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_DELAY * 2 ** min(failures, 30), LONGEST_DELAY)
        self._sequence += 1
        heapq.heappush(self._later, (self._now() + delay, self._sequence, key))

    def forget(self, key: K) -> None:
        """Reset the delay of a key after success."""
        self._failures.pop(key, None)

    def pop(self) -> K | None:
        """The next due key; None if there is none."""
        while self._later and self._later[0][0] <= self._now():
            self.add(heapq.heappop(self._later)[2])
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def seconds_until_due(self) -> float | None:
        """Seconds until a key is due, 0 if a key is due now; None without keys."""
        if self._ready:
            return 0.0
        if not self._later:
            return None
        return max(0.001, (self._later[0][0] - self._now()).total_seconds())
