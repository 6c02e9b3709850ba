"""The objects of the embedded cluster, as kube-apiserver's storage layer has them: in memory, synchronous.

It has one thread and one writer. Objects are immutable values (`dra_spawner.devcluster.api.json_values`), which all
readers share. To change an object, pass a ``mutable_copy`` (or ``copy.deepcopy``) to `Store.update`, or use
`Store.modify`.
"""

import random as random_module
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
)
from dra_spawner.devcluster.api.event_forms import requested_form, stored_form
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.patches import PatchError, PatchType, apply_patch
from dra_spawner.devcluster.api.resource_types import EVENTS, NAMESPACES, PRIORITYCLASSES, ResourceType
from dra_spawner.devcluster.api.schema import decode_object
from dra_spawner.devcluster.api.selectors import SelectorError, object_filter
from dra_spawner.devcluster.api.storage import admission, naming
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.deletion import Deletion, PropagationPolicy, timestamp
from dra_spawner.devcluster.api.storage.event_lifetime import EventLifetime
from dra_spawner.devcluster.api.storage.garbage_collector import GarbageCollector
from dra_spawner.devcluster.api.storage.object_table import ObjectKey
from dra_spawner.devcluster.api.storage.object_writer import ObjectWriter
from dra_spawner.devcluster.api.storage.preconditions import check_preconditions, finalizer_errors
from dra_spawner.devcluster.api.storage.updates import count_generation, updated_object
from dra_spawner.devcluster.api.storage.versioned_objects import VersionedObjects

__all__ = ["ApiError", "Deletion", "ListResult", "Store", "WatchEvent", "WatchEventType"]

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SYSTEM_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True, slots=True)
class ListResult:
    """A page of objects."""

    items: list[JsonObject]
    resource_version: str
    """The store's resource version at the list, from which a watch continues."""
    next_key: ObjectKey | None = None
    """The key of the last item if more follow."""
    remaining: int = 0
    """Number of items that follow; only for lists without selectors."""


class Store:
    """All API objects of an embedded cluster.

    Parameters
    ----------
    now
        The cluster's clock; returns timezone-aware times in UTC.
    random
        Random numbers for generated names.
    history_limit
        Number of changes of each kind that watches from the past can read.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        *,
        random: random_module.Random | None = None,
        history_limit: int = 10_000,
    ) -> None:
        self._now = now
        self._random = random or random_module.Random()  # noqa: S311 (names, not secrets)
        self._objects = VersionedObjects(history_limit)
        self._writer = ObjectWriter(self._objects, now)
        self._collector = GarbageCollector(self._objects, self._writer)
        self._objects.subscribe(self._collector.note)
        self._lifetime = EventLifetime()
        self._objects.subscribe(lambda change: self._lifetime.note(change, self._now()))
        for namespace in INITIAL_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": namespace}})
        for name, value in SYSTEM_PRIORITY_CLASSES.items():
            self.create(PRIORITYCLASSES, {"metadata": {"name": name}, "value": value})

    # --- reading -----------------------------------------------------------------------------------

    @property
    def resource_version(self) -> str:
        """The number of the last change, as the API writes it."""
        return str(self._objects.revision)

    def now(self) -> datetime:
        """The cluster's time."""
        return self._now()

    def find(self, resource_type: ResourceType, namespace: str | None, name: str) -> JsonObject | None:
        """An object, or None."""
        return self._objects.find(resource_type, namespace or "", name)

    def get(self, resource_type: ResourceType, namespace: str | None, name: str) -> JsonObject:
        """An object.

        Raises
        ------
        ApiError
            ``NotFound``.
        """
        obj = self.find(resource_type, namespace, name)
        if obj is None:
            raise not_found(resource_type, name)
        return obj

    def objects(self, resource_type: ResourceType, namespace: str | None = None) -> Iterator[JsonObject]:
        """The objects of a kind in order; do not write to the store during the iteration."""
        return self._objects.values(resource_type, namespace)

    def list(
        self,
        resource_type: ResourceType,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        *,
        limit: int = 0,
        after: ObjectKey | None = None,
    ) -> ListResult:
        """The objects of a kind, ordered by namespace and name.

        Parameters
        ----------
        namespace
            Namespace of the objects; None for all.
        limit
            Maximum items of the page; 0 for all.
        after
            Last key of the previous page.

        Raises
        ------
        ApiError
            ``BadRequest`` when a selector cannot be parsed.
        """
        try:
            selected = object_filter(resource_type, label_selector, field_selector)
        except SelectorError as error:
            raise bad_request(str(error)) from error
        values = self._objects.values(resource_type, namespace or None, after)
        matching = values if selected is None else filter(selected, values)
        if not limit:
            return ListResult(list(matching), self.resource_version)
        page = list(islice(matching, limit))
        more = next(matching, None) is not None
        if not more:
            return ListResult(page, self.resource_version)
        last = page[-1]["metadata"]
        remaining = 1 + sum(1 for _ in matching) if selected is None else 0
        return ListResult(page, self.resource_version, (last.get("namespace", ""), last["name"]), remaining)

    def events_since(self, resource_type: ResourceType, revision: int) -> Sequence[WatchEvent]:
        """The changes of a kind after a resource version, oldest first.

        Raises
        ------
        ApiError
            ``Expired`` (410) if some of them were dropped.
        """
        return self._objects.since(resource_type, revision)

    def subscribe(self, callback: Callable[[WatchEvent], None]) -> Callable[[], None]:
        """Call `callback` after each change, in order, before the writer's call returns.

        The callback must neither raise nor write to the store.

        Returns
        -------
        Callable
            Ends the subscription.
        """
        return self._objects.subscribe(callback)

    # --- writing -----------------------------------------------------------------------------------

    def create(
        self,
        resource_type: ResourceType,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> JsonObject:
        """Add an object.

        Raises
        ------
        ApiError
            ``AlreadyExists``, ``NotFound`` (the namespace), ``Forbidden`` (it terminates), ``Invalid``,
            ``BadRequest``.
        """
        self.remove_old_events()
        new = stored_form(resource_type, decode_object(resource_type, obj))
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        naming.set_namespace(resource_type, new, namespace, self._objects)
        admission.admit_create(resource_type, new, self._objects, self._now())
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = naming.generated_name(resource_type, new, self._objects, self._random)
        errors = admission.validate_create(resource_type, new, self._objects)
        if errors:
            raise invalid(resource_type, metadata.get("name", ""), errors)
        present = self.find(resource_type, metadata.get("namespace"), metadata["name"])
        if present is not None:
            raise already_exists(
                resource_type, metadata["name"], being_deleted=bool(present["metadata"].get("deletionTimestamp"))
            )
        for server_set in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"):
            metadata.pop(server_set, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp(self._now())
        if resource_type.generation:
            metadata["generation"] = 1
        created = self._writer.write(resource_type, new, dry_run=dry_run)
        self._collector.collect()
        return created

    def update(
        self, resource_type: ResourceType, obj: Mapping[str, Any], subresource: str = "", *, dry_run: bool = False
    ) -> JsonObject:
        """Replace an object or, with subresource ``status``, its status.

        With ``metadata.resourceVersion`` the update is refused if the object has changed since.

        Raises
        ------
        ApiError
            ``NotFound``, ``Conflict``, ``Invalid``, ``BadRequest``.
        """
        desired = stored_form(resource_type, decode_object(resource_type, obj))
        metadata = desired["metadata"]
        current = self.get(resource_type, metadata.get("namespace"), metadata.get("name", ""))
        updated = self._replace(resource_type, current, desired, subresource, dry_run=dry_run)
        self._collector.collect()
        return updated

    def modify(
        self,
        resource_type: ResourceType,
        namespace: str | None,
        name: str,
        change: Callable[[JsonObject], None],
        subresource: str = "",
    ) -> JsonObject:
        """Read an object, let `change` edit a copy of it in place, and write the copy back."""
        desired = mutable_copy(self.get(resource_type, namespace, name))
        change(desired)
        return self.update(resource_type, desired, subresource)

    def patch(
        self,
        resource_type: ResourceType,
        namespace: str | None,
        name: str,
        body: Any,
        patch_type: PatchType | str = PatchType.STRATEGIC_MERGE,
        subresource: str = "",
        *,
        dry_run: bool = False,
    ) -> JsonObject:
        """Apply a patch to an object or to its status.

        Raises
        ------
        ApiError
            ``NotFound``, ``Conflict`` (the patch states a resource version), ``Invalid``, ``BadRequest``.
        """
        current = self.get(resource_type, namespace, name)
        try:
            patched = apply_patch(requested_form(resource_type, current), body, PatchType(patch_type))
        except PatchError as error:
            if error.well_formed:
                raise ApiError(422, "Invalid", str(error)) from error
            raise bad_request(f"error decoding patch: {error}") from error
        try:
            desired = stored_form(resource_type, decode_object(resource_type, patched))
        except ApiError as error:
            raise ApiError(422, "Invalid", error.message) from error
        for field in ("name", "namespace"):
            if desired["metadata"].get(field) != current["metadata"].get(field):
                raise bad_request(
                    f"the {field} of the object ({desired['metadata'].get(field)}) does not match the {field} on the "
                    f"URL ({current['metadata'].get(field)})"
                )
        updated = self._replace(resource_type, current, desired, subresource, dry_run=dry_run)
        self._collector.collect()
        return updated

    def replace(
        self, resource_type: ResourceType, current: JsonObject, new: JsonObject, *, dry_run: bool = False
    ) -> JsonObject:
        """Write a state that the server itself has built, without the rules for clients."""
        replaced = self._writer.replace(resource_type, current, new, dry_run=dry_run)
        self._collector.collect()
        return replaced

    def delete(
        self,
        resource_type: ResourceType,
        namespace: str | None,
        name: str,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> Deletion:
        """Delete an object, at once or by marking it (see `dra_spawner.devcluster.api.storage.deletion`).

        Parameters
        ----------
        grace_period_seconds
            Grace period, for pods; by default the pod's own period.
        propagation_policy
            Effect on owned objects; by default they are deleted in the background.
        uid, resource_version
            Preconditions of the deletion.

        Raises
        ------
        ApiError
            ``NotFound``, ``Conflict`` (a precondition does not hold), ``Forbidden``.
        """
        current = self.get(resource_type, namespace, name)
        check_preconditions(resource_type, current, uid, resource_version)
        if resource_type is NAMESPACES and name in ("default", "kube-system", "kube-public"):
            raise forbidden(resource_type, name, "this namespace may not be deleted")
        policy = PropagationPolicy(propagation_policy) if propagation_policy else None
        deletion = self._writer.mark_deleted(resource_type, current, grace_period_seconds, policy, dry_run=dry_run)
        self._collector.collect()
        return deletion

    def remove_old_events(self) -> None:
        """Remove the Events whose time is over; to be called often, as nothing else removes them."""
        for namespace, name in self._lifetime.due(self._now()):
            self._writer.remove(EVENTS, self.get(EVENTS, namespace, name))

    def _replace(
        self, resource_type: ResourceType, current: JsonObject, desired: JsonObject, subresource: str, *, dry_run: bool
    ) -> JsonObject:
        """Update `current` to the state that a client desires."""
        metadata, known = desired["metadata"], current["metadata"]
        name = known["name"]
        version = metadata.get("resourceVersion")
        if not version and not resource_type.unconditional_update:
            error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource_type, name, [error])
        if metadata.get("uid", known["uid"]) != known["uid"]:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {known['uid']}"
            raise conflict(resource_type, name, why)
        if version and version != known["resourceVersion"]:
            raise conflict(resource_type, name)
        new = updated_object(resource_type, current, desired, subresource)
        admission.admit_update(resource_type, current, new, subresource, self._now())
        count_generation(resource_type, current, new)
        errors = finalizer_errors(current, new) + admission.validate_update(resource_type, current, new, subresource)
        if errors:
            raise invalid(resource_type, name, errors)
        return self._writer.replace(resource_type, current, new, dry_run=dry_run)
