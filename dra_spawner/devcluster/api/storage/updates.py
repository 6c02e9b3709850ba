"""Updates of objects: the parts that a client may write, and the consequences of a change."""

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import NAMESPACES, NODES, PODS, ResourceType

_SERVER_SET = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
)
_COLLECTIONS = ("labels", "annotations", "finalizers", "ownerReferences")


def updated_object(
    resource_type: ResourceType, current: JsonObject, desired: JsonObject, subresource: str
) -> JsonObject:
    """The state that a client desires, with the parts of `current` that the client cannot write.

    An update of the object does not change its status. An update of the status changes nothing else, except for the
    metadata of pods and nodes, whose owners stay.
    """
    known = current["metadata"]
    if subresource == "status":
        new = {**current, "status": desired.get("status", {})}
        if resource_type in (PODS, NODES):
            new["metadata"] = dict(desired["metadata"])
            new["metadata"].pop("ownerReferences", None)
            if "ownerReferences" in known:
                new["metadata"]["ownerReferences"] = known["ownerReferences"]
    else:
        new = dict(desired)
        if resource_type.status:
            new.pop("status", None)
            if "status" in current:
                new["status"] = current["status"]
    new["metadata"] = {key: value for key, value in new["metadata"].items() if key not in _SERVER_SET} | {
        key: known[key] for key in _SERVER_SET if key in known
    }
    return new


def count_generation(resource_type: ResourceType, current: JsonObject, new: JsonObject) -> None:
    """Count a change of the spec in ``metadata.generation``, in place."""
    if resource_type.generation and new.get("spec") != current.get("spec"):
        new["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1


def without_empty_members(metadata: JsonObject) -> JsonObject:
    """The metadata without empty collections, which the API treats as absent."""
    if all(metadata[key] for key in _COLLECTIONS if key in metadata):
        return metadata
    return {key: value for key, value in metadata.items() if value or key not in _COLLECTIONS}


def is_deletion_complete(resource_type: ResourceType, current: JsonObject, new: JsonObject) -> bool:
    """Whether an update has removed the last finalizer of a deleted object, so that it can be removed."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and current["metadata"].get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and resource_type is not NAMESPACES
    )
