"""Namespace and name of a new object."""

from random import Random

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import already_exists, bad_request, forbidden, not_found
from dra_spawner.devcluster.api.resource_types import NAMESPACES, ResourceType
from dra_spawner.devcluster.api.storage.versioned_objects import VersionedObjects

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_CHARACTERS = 5
_MAX_BASE_CHARACTERS = 58
_TRIES = 8


def set_namespace(
    resource_type: ResourceType, obj: JsonObject, namespace: str | None, objects: VersionedObjects
) -> None:
    """Set the object's namespace, which must exist and not terminate.

    Raises
    ------
    ApiError
        ``BadRequest``, ``NotFound``, or ``Forbidden`` when the namespace terminates.
    """
    metadata = obj["metadata"]
    if not resource_type.namespaced:
        metadata.pop("namespace", None)
        return
    own = metadata.get("namespace")
    if own and namespace and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = namespace or own
    if not metadata["namespace"]:
        raise bad_request("an empty namespace may not be set during creation")
    found = objects.find(NAMESPACES, "", metadata["namespace"])
    if found is None:
        raise not_found(NAMESPACES, metadata["namespace"])
    if found["metadata"].get("deletionTimestamp"):
        name = found["metadata"]["name"]
        raise forbidden(
            resource_type,
            metadata.get("name", ""),
            f"unable to create new content in namespace {name} because it is being terminated",
            [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {name} is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        )


def generated_name(resource_type: ResourceType, obj: JsonObject, objects: VersionedObjects, random: Random) -> str:
    """A free name that starts with ``metadata.generateName``.

    Raises
    ------
    ApiError
        ``AlreadyExists`` if all random names are taken.
    """
    base = str(obj["metadata"]["generateName"])[:_MAX_BASE_CHARACTERS]
    for _ in range(_TRIES):
        name = base + "".join(random.choices(_ALPHABET, k=_SUFFIX_CHARACTERS))
        if objects.find(resource_type, obj["metadata"].get("namespace", ""), name) is None:
            return name
    raise already_exists(resource_type, name)
