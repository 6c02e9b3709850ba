"""Removes objects that have lost their owners, and the content of terminating namespaces.

The rules are those of kube-controller-manager's garbage collector (``attemptToDeleteItem``) and namespace
controller. Here they run at the end of the request that causes them.
"""

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import NAMESPACES, STORED_TYPES, ResourceType, by_kind
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.deletion import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, PropagationPolicy
from dra_spawner.devcluster.api.storage.object_writer import ObjectWriter
from dra_spawner.devcluster.api.storage.versioned_objects import VersionedObjects

Reference = tuple[ResourceType, str, str]
"""Kind, namespace, name."""


class _Owner(StrEnum):
    SOLID = "solid"
    DANGLING = "dangling"
    WAITING = "waiting"  # deleted in the foreground: removed after its dependents


class GarbageCollector:
    """Watches the objects of one store and deletes objects that have lost their owners."""

    def __init__(self, objects: VersionedObjects, writer: ObjectWriter) -> None:
        self._objects = objects
        self._writer = writer
        self._dependents: dict[str, dict[Reference, None]] = {}  # by the owner's uid, in order of appearance
        self._suspects: deque[Reference] = deque()

    def note(self, event: WatchEvent) -> None:
        """Note a change for `collect`."""
        metadata = event.object["metadata"]
        namespace = metadata.get("namespace", "")
        reference = (event.resource_type, namespace, metadata["name"])
        deleted = event.type is WatchEventType.DELETED
        self._index(reference, event.previous, None if deleted else event.object)
        if deleted:
            self._suspects.extend(self._dependents.get(metadata["uid"], ()))
            self._suspects.extend(self._owners_of(reference, event.object))
            if namespace:
                self._suspects.append((NAMESPACES, "", namespace))
        elif metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
            self._suspects.append(reference)

    def collect(self) -> None:
        """Delete all due objects, including those that become due meanwhile."""
        while self._suspects:
            resource_type, namespace, name = self._suspects.popleft()
            obj = self._objects.find(resource_type, namespace, name)
            if obj is None:
                continue
            if resource_type is NAMESPACES:
                self._empty_namespace(obj)
            else:
                self._attempt(resource_type, obj)

    def _index(self, reference: Reference, before: JsonObject | None, after: JsonObject | None) -> None:
        old = {owner["uid"] for owner in _owner_references(before)}
        new = {owner["uid"] for owner in _owner_references(after)}
        for uid in old - new:
            entries = self._dependents[uid]
            entries.pop(reference, None)
            if not entries:
                del self._dependents[uid]
        for uid in new - old:
            self._dependents.setdefault(uid, {})[reference] = None

    def _owners_of(self, reference: Reference, obj: JsonObject) -> Iterator[Reference]:
        for owner in _owner_references(obj):
            owner_type = by_kind(owner["apiVersion"], owner["kind"])
            if owner_type is not None:
                yield owner_type, reference[1] if owner_type.namespaced else "", owner["name"]

    def _attempt(self, resource_type: ResourceType, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND_FINALIZER in finalizers:
                self._await_dependents(resource_type, obj)
            elif ORPHAN_FINALIZER in finalizers:
                self._orphan_dependents(resource_type, obj)
            return
        states = {owner["uid"]: self._state(resource_type, obj, owner) for owner in _owner_references(obj)}
        if not states or all(state is _Owner.SOLID for state in states.values()):
            return
        if _Owner.SOLID in states.values():
            self._drop_owners(resource_type, obj, {uid for uid, state in states.items() if state is not _Owner.SOLID})
            return
        foreground = _Owner.WAITING in states.values() and metadata["uid"] in self._dependents
        policy = PropagationPolicy.FOREGROUND if foreground else None
        self._writer.mark_deleted(resource_type, obj, propagation_policy=policy)

    def _state(self, resource_type: ResourceType, obj: JsonObject, owner: JsonObject) -> _Owner:
        owner_type = by_kind(owner["apiVersion"], owner["kind"])
        if owner_type is None or (owner_type.namespaced and not resource_type.namespaced):
            return _Owner.SOLID  # it cannot be proven gone
        namespace = obj["metadata"].get("namespace", "") if owner_type.namespaced else ""
        found = self._objects.find(owner_type, namespace, owner["name"])
        if found is None or found["metadata"]["uid"] != owner["uid"]:
            return _Owner.DANGLING
        waits = FOREGROUND_FINALIZER in (found["metadata"].get("finalizers") or ())
        if waits and found["metadata"].get("deletionTimestamp") and owner.get("blockOwnerDeletion"):
            return _Owner.WAITING
        return _Owner.SOLID

    def _await_dependents(self, resource_type: ResourceType, owner: JsonObject) -> None:
        """Foreground deletion: remove the owner when no dependent blocks it."""
        blocking = []
        for reference in self._dependents.get(owner["metadata"]["uid"], ()):
            dependent = self._objects.find(*reference)
            if any(
                entry["uid"] == owner["metadata"]["uid"] and entry.get("blockOwnerDeletion")
                for entry in _owner_references(dependent)
            ):
                blocking.append((reference, dependent))
        if not blocking:
            self._drop_finalizer(resource_type, owner, FOREGROUND_FINALIZER)
        for reference, dependent in blocking:
            if dependent is not None and not dependent["metadata"].get("deletionTimestamp"):
                self._suspects.append(reference)

    def _orphan_dependents(self, resource_type: ResourceType, owner: JsonObject) -> None:
        uid = owner["metadata"]["uid"]
        for reference in list(self._dependents.get(uid, ())):
            dependent = self._objects.find(*reference)
            if dependent is not None:
                self._drop_owners(reference[0], dependent, {uid})
        self._drop_finalizer(resource_type, owner, ORPHAN_FINALIZER)

    def _drop_owners(self, resource_type: ResourceType, obj: JsonObject, uids: set[str]) -> None:
        left = [owner for owner in _owner_references(obj) if owner["uid"] not in uids]
        self._replace_metadata(resource_type, obj, "ownerReferences", left)

    def _drop_finalizer(self, resource_type: ResourceType, obj: JsonObject, finalizer: str) -> None:
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        self._replace_metadata(resource_type, obj, "finalizers", left)

    def _replace_metadata(self, resource_type: ResourceType, obj: JsonObject, field: str, value: list[Any]) -> None:
        self._writer.replace(resource_type, obj, {**obj, "metadata": {**obj["metadata"], field: value}})

    def _empty_namespace(self, namespace: JsonObject) -> None:
        """Delete the content of a terminating namespace, and the namespace when it is empty."""
        if not namespace["metadata"].get("deletionTimestamp"):
            return
        name = namespace["metadata"]["name"]
        left = [
            (resource_type, obj)
            for resource_type in STORED_TYPES
            if resource_type.namespaced
            for obj in self._objects.values(resource_type, name)
        ]
        for resource_type, obj in left:
            if not obj["metadata"].get("deletionTimestamp"):
                self._writer.mark_deleted(resource_type, obj)
        if not left:
            self._writer.remove(NAMESPACES, namespace)


def _owner_references(obj: JsonObject | None) -> list[JsonObject]:
    return (obj["metadata"].get("ownerReferences") or []) if obj is not None else []
