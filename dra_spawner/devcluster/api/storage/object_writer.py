"""Single steps of a write, which the store and its garbage collector share.

They know no rules for clients, and collect no garbage.
"""

from collections.abc import Callable
from datetime import datetime

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.json_values import freeze
from dra_spawner.devcluster.api.resource_types import NAMESPACES, ResourceType
from dra_spawner.devcluster.api.storage.deletion import Deletion, PropagationPolicy, deletion_step
from dra_spawner.devcluster.api.storage.updates import is_deletion_complete, without_empty_members
from dra_spawner.devcluster.api.storage.versioned_objects import VersionedObjects


class ObjectWriter:
    """Writes states of objects.

    Parameters
    ----------
    objects
        The objects that it changes.
    now
        The cluster's clock.
    """

    def __init__(self, objects: VersionedObjects, now: Callable[[], datetime]) -> None:
        self._objects = objects
        self._now = now

    def write(self, resource_type: ResourceType, new: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """Store an object's next state."""
        new["metadata"] = without_empty_members(new["metadata"])
        return _frozen(new) if dry_run else self._objects.put(resource_type, new)

    def replace(
        self, resource_type: ResourceType, current: JsonObject, new: JsonObject, *, dry_run: bool = False
    ) -> JsonObject:
        """Write an accepted update if it differs; remove the object if nothing blocks its deletion any more."""
        new["metadata"] = without_empty_members(new["metadata"])
        if new == current:
            return current
        if is_deletion_complete(resource_type, current, new):
            self.remove(resource_type, current, dry_run=dry_run)
            return _frozen(new)
        return self.write(resource_type, new, dry_run=dry_run)

    def mark_deleted(
        self,
        resource_type: ResourceType,
        current: JsonObject,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
        *,
        dry_run: bool = False,
    ) -> Deletion:
        """Do one step of a deletion."""
        step = deletion_step(resource_type, current, self._now(), grace_period_seconds, propagation_policy)
        latest = current
        if step.metadata != current["metadata"]:
            marked: JsonObject = {**current, "metadata": step.metadata}
            if resource_type is NAMESPACES:
                marked["status"] = {**current.get("status", {}), "phase": "Terminating"}
            latest = self.write(resource_type, marked, dry_run=dry_run)
        if step.remove:
            latest = self.remove(resource_type, latest, dry_run=dry_run)
        return Deletion(latest, step.remove)

    def remove(self, resource_type: ResourceType, last: JsonObject, *, dry_run: bool = False) -> JsonObject:
        """Remove an object, and return its last state."""
        return last if dry_run else self._objects.remove(resource_type, last)


def _frozen(new: JsonObject) -> JsonObject:
    frozen: JsonObject = freeze(new)
    return frozen
