"""Where the API server has objects of a kind."""

from __future__ import annotations

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path

_WITHOUT_NAMESPACE = (
    "Cluster",
    "DeviceClass",
    "Namespace",
    "Node",
    "PriorityClass",
    "ResourceSlice",
    "ValidatingAdmission",
)


def plural_of(kind: str) -> str:
    """The kind in addresses, such as ``networkpolicies``."""
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}es" if name.endswith("s") else f"{name}s"


def has_namespace(kind: str) -> bool:
    """Whether objects of the kind are in a namespace."""
    return not kind.startswith(_WITHOUT_NAMESPACE)


def path_of(obj: JsonObject, namespace: str | None = None, *, named: bool = False) -> str:
    """The address of the objects of this kind, or of this object, in its namespace or the given one."""
    metadata = obj["metadata"]
    where = (metadata.get("namespace") or namespace) if has_namespace(obj["kind"]) else None
    return resource_path(obj["apiVersion"], plural_of(obj["kind"]), where, metadata["name"] if named else None)
