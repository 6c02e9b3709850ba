"""The part of OpenAPI v3 by which ``kubectl`` learns that this API validates fields itself."""

from __future__ import annotations

from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.http.discovery import KUBERNETES_VERSION
from dra_spawner.devcluster.api.resource_types import RESOURCE_TYPES, ResourceType

_FIELD_VALIDATION: Final[JsonObject] = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}


def index(path: str) -> JsonObject:
    """The body of ``/openapi/v3``.

    Parameters
    ----------
    path
        The path of the request, which may begin with the token: clients take the addresses as they are.
    """
    base = path.rstrip("/")
    groups = sorted({_group_path(each) for each in RESOURCE_TYPES})
    return {"paths": {group: {"serverRelativeURL": f"{base}/{group}"} for group in groups}}


def document(group_path: str) -> JsonObject | None:
    """The body of ``/openapi/v3/<group path>``; None if not served. It names each kind's patch, and no structures."""
    served = [each for each in RESOURCE_TYPES if _group_path(each) == group_path]
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": f"v{'.'.join(map(str, KUBERNETES_VERSION))}"},
        "paths": {_object_path(each): {"patch": _patch(each)} for each in served},
    }


def _group_path(resource_type: ResourceType) -> str:
    return f"{'apis' if resource_type.group else 'api'}/{resource_type.api_version}"


def _object_path(resource_type: ResourceType) -> str:
    namespace = "namespaces/{namespace}/" if resource_type.namespaced else ""
    return f"/{_group_path(resource_type)}/{namespace}{resource_type.plural}/{{name}}"


def _patch(resource_type: ResourceType) -> JsonObject:
    kind = {"group": resource_type.group, "version": resource_type.version, "kind": resource_type.kind}
    return {"parameters": [_FIELD_VALIDATION], "responses": {}, "x-kubernetes-group-version-kind": kind}
