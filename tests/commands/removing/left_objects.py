"""All objects of a cluster, of any kind, and the marks of this project's objects."""

from __future__ import annotations

import re

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path

#: Texts that mark an object as this project's.
OURS = re.compile(r"hub\.jupyter\.org|dra-spawner")
#: Marks of KubeSpawner and of zero-to-jupyterhub, which stay.
_THEIRS = re.compile(
    r"hub\.jupyter\.org/(username|servername|kubespawner-version|node-purpose|network-access-[a-z-]+)|"
    r"hub\.jupyter\.org/dedicated"
)


async def every_object(api: KubernetesApi, namespace: str | None = None) -> dict[str, JsonObject]:
    """Each object, by ``Kind namespace/name``, or ``Kind name`` in one namespace.

    Parameters
    ----------
    namespace
        Where to look for kinds that are in namespaces; None for all.
    """
    groups = (await api.get("/apis"))["groups"]
    found = {}
    for version in ("v1", *(each["preferredVersion"]["groupVersion"] for each in groups)):
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for kind in (await api.get(path))["resources"]:
            if "/" in kind["name"] or "list" not in kind["verbs"]:
                continue
            try:
                listed = await api.list(resource_path(version, kind["name"], namespace if kind["namespaced"] else None))
            except KubernetesError as error:
                if error.status not in (404, 405):
                    raise
                continue
            for item in listed["items"]:
                metadata = item["metadata"]
                where = f"{metadata['namespace']}/" if "namespace" in metadata and namespace is None else ""
                found[f"{kind['kind']} {where}{metadata['name']}"] = item
    return found


def marks_of(obj: JsonObject) -> set[str]:
    """Marks that an object is this project's: in its metadata, and among the consumers in its status."""
    metadata = obj["metadata"]
    texts = {metadata["name"], *(metadata.get("finalizers") or ())}
    for marks in (metadata.get("labels") or {}, metadata.get("annotations") or {}):
        texts |= {*marks, *(value for value in marks.values() if value == "dra-spawner")}
    texts |= {each["name"] for each in metadata.get("ownerReferences") or ()}
    texts |= {each.get("apiGroup", "") for each in (obj.get("status") or {}).get("reservedFor") or ()}
    return {text for text in texts if OURS.search(text) and not _THEIRS.fullmatch(text)}


async def marked_objects(api: KubernetesApi, namespace: str | None = None) -> dict[str, set[str]]:
    """Every object with marks of this project, with its marks; without events, which Kubernetes removes by itself."""
    found = await every_object(api, namespace)
    return {title: marks for title, obj in found.items() if not title.startswith("Event ") and (marks := marks_of(obj))}
