"""Discovery: the API's groups, versions and kinds."""

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import (
    DAEMONSETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    RESOURCE_TYPES,
    SERVICES,
    STATEFULSETS,
    ResourceType,
)

KUBERNETES_VERSION = (1, 37)
"""The Kubernetes release of this API."""
_PATCH = 2
"""The patch whose scheduler is reproduced, so that no known defect of an earlier one is reported."""

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_POD_SUBRESOURCES: tuple[JsonObject, ...] = (
    {"name": "pods/binding", "kind": "Binding", "verbs": ["create"]},
    {"name": "pods/eviction", "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    {"name": "pods/log", "kind": "Pod", "verbs": ["get"]},
)
_OF_ALL = (PODS, SERVICES, DAEMONSETS, DEPLOYMENTS, STATEFULSETS)
"""Kinds of ``kubectl get all``."""
_REVIEWS: JsonObject = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}
AUTHORIZATION = (names.AUTHORIZATION_GROUP, "v1")


def version() -> JsonObject:
    """The body of ``/version``."""
    major, minor = KUBERNETES_VERSION
    return {
        "major": str(major),
        "minor": str(minor),
        "gitVersion": f"v{major}.{minor}.{_PATCH}+dra-spawner",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def core_versions() -> JsonObject:
    """The body of ``/api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_versions() -> dict[str, str]:
    groups = {resource_type.group: resource_type.version for resource_type in RESOURCE_TYPES if resource_type.group}
    groups[AUTHORIZATION[0]] = AUTHORIZATION[1]
    return groups


def group(name: str) -> JsonObject | None:
    """The body of ``/apis/<group>``; None for a group that is not served."""
    served = _group_versions().get(name)
    if served is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_members(name, served)}


def _group_members(name: str, served: str) -> JsonObject:
    entry = {"groupVersion": f"{name}/{served}", "version": served}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def groups() -> JsonObject:
    """The body of ``/apis``."""
    members = [_group_members(name, served) for name, served in sorted(_group_versions().items())]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": members}


def resources(group_name: str, version_name: str) -> JsonObject | None:
    """The body of ``/apis/<group>/<version>`` and ``/api/v1``; None if not served."""
    entries: list[JsonObject] = []
    for resource_type in RESOURCE_TYPES:
        if (resource_type.group, resource_type.version) == (group_name, version_name):
            entries += _entries(resource_type)
    if (group_name, version_name) == AUTHORIZATION:
        entries.append(_REVIEWS)
    if not entries:
        return None
    entries.sort(key=lambda entry: str(entry["name"]))
    group_version = f"{group_name}/{version_name}" if group_name else version_name
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}


def _entries(resource_type: ResourceType) -> list[JsonObject]:
    base = {"singularName": "", "namespaced": resource_type.namespaced}
    entry: JsonObject = base | {
        "name": resource_type.plural,
        "singularName": resource_type.singular,
        "kind": resource_type.kind,
        "verbs": [verb for verb in _ALL_VERBS if resource_type is not NAMESPACES or verb != "deletecollection"],
    }
    if resource_type.short_names:
        entry["shortNames"] = list(resource_type.short_names)
    if resource_type in _OF_ALL:
        entry["categories"] = ["all"]
    entries = [entry]
    if resource_type.status:
        name = f"{resource_type.plural}/status"
        entries.append(base | {"name": name, "kind": resource_type.kind, "verbs": ["get", "patch", "update"]})
    if resource_type is PODS:
        entries += [base | subresource for subresource in _POD_SUBRESOURCES]
    return entries
