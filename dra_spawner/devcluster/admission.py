"""What the API server adds to an object, and what it checks, before the store takes it."""

from typing import TYPE_CHECKING

from dra_spawner.devcluster.api_errors import FieldError
from dra_spawner.devcluster.json_values import JsonObject
from dra_spawner.devcluster.resource_types import NAMESPACES, NODES, PERSISTENTVOLUMECLAIMS, PODS, ResourceType

if TYPE_CHECKING:
    from dra_spawner.devcluster.store import Store


def admit_create(resource_type: ResourceType, obj: JsonObject, store: "Store") -> None:
    """Fill in what the server sets on a new object, in place."""
    if resource_type.status and resource_type is not NODES:
        obj["status"] = {}
    if resource_type is PODS:
        obj["status"] = {"phase": "Pending"}
    elif resource_type is NAMESPACES:
        obj["status"] = {"phase": "Active"}
    elif resource_type is PERSISTENTVOLUMECLAIMS:
        obj["status"] = {"phase": "Pending"}


def admit_update(resource_type: ResourceType, current: JsonObject, new: JsonObject, subresource: str) -> None:
    """Fill in what the server sets on an updated object, in place."""


def validate_create(resource_type: ResourceType, obj: JsonObject) -> list[FieldError]:
    """What is wrong with a new object."""
    return []


def validate_update(
    resource_type: ResourceType, current: JsonObject, new: JsonObject, subresource: str
) -> list[FieldError]:
    """What is wrong with an updated object."""
    return []
