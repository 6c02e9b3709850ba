"""What the API server says that it serves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, KubernetesUnavailable
from dra_spawner.kube.client.api_errors import RequestTarget


async def is_absent(api: KubernetesApi, group_version: str, plural: str) -> bool:
    """Whether discovery says that the cluster does not serve a resource.

    A 404 alone does not say so. The version's document must be served without the resource, or the list of groups
    without the version. Where the two contradict each other, replicas of the control plane differ.

    Raises
    ------
    KubernetesError
        If discovery fails.
    """
    group, _, version = group_version.rpartition("/")
    path = f"/apis/{group_version}" if group else f"/api/{group_version}"
    try:
        document = await api.get(path)
    except KubernetesError as error:
        if error.status != 404:
            raise
        return bool(group) and version not in (await api_groups(api)).get(group, ())
    resources = _members(path, document, "APIResourceList", "resources")
    return document.get("groupVersion") == group_version and plural not in resources


async def served_version(api: KubernetesApi, group_versions: Iterable[str], plural: str) -> str | None:
    """The first of these API versions that surely serves a resource, as discovery says; None if none does.

    Raises
    ------
    KubernetesError
        If discovery fails.
    """
    for group_version in group_versions:
        group = group_version.rpartition("/")[0]
        path = f"/apis/{group_version}" if group else f"/api/{group_version}"
        try:
            document = await api.get(path)
        except KubernetesError as error:
            if error.status != 404:
                raise
            continue
        resources = _members(path, document, "APIResourceList", "resources")
        if document.get("groupVersion") == group_version and plural in resources:
            return group_version
    return None


async def api_groups(api: KubernetesApi) -> dict[str, tuple[str, ...]]:
    """Versions by API group, the preferred one first, without those of the core.

    Raises
    ------
    KubernetesError
        If discovery fails.
    """
    groups = _members("/apis", await api.get("/apis"), "APIGroupList", "groups")
    return {
        name: tuple(sorted(_versions(group), key=lambda each: each != _preferred(group)))
        for name, group in groups.items()
    }


def _versions(group: JsonObject) -> list[str]:
    versions = group.get("versions")
    return [str(each["version"]) for each in versions or () if isinstance(each, dict) and "version" in each]


def _preferred(group: JsonObject) -> str:
    return str((group.get("preferredVersion") or {}).get("version"))


def _members(path: str, document: JsonObject, kind: str, key: str) -> dict[str, Any]:
    """The named members of a discovery document; every API server has some."""
    members = document.get(key) if document.get("kind") == kind else None
    named = members if isinstance(members, list) else []
    found = {each["name"]: each for each in named if isinstance(each, dict) and isinstance(each.get("name"), str)}
    if not found:
        message = f"the answer is no {kind}"
        raise KubernetesUnavailable(RequestTarget.from_path("get", path), status=0, reason="BadAnswer", message=message)
    return found
