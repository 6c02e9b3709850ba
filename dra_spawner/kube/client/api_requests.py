"""Parts of requests to the Kubernetes API: paths, types of patches, types of watch events."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote


class WatchEventType(StrEnum):
    """``metav1.WatchEvent.type``; ERROR is raised instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class PatchType(StrEnum):
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


def resource_path(
    group_version: str,
    plural: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Path of a resource or a collection on the API server.

    Parameters
    ----------
    group_version
        As in ``apiVersion``: ``v1``, ``resource.k8s.io/v1``.
    plural
        ``pods``, ``resourceclaimtemplates`` …
    namespace
        None for cluster-scoped resources, and for a namespaced one in all namespaces.
    subresource
        ``status``, ``binding``, ``log`` …

    Raises
    ------
    ValueError
        For a segment that would change the meaning of the path, for example an empty name or "..".
    """
    segments = ["api" if "/" not in group_version else "apis", *group_version.split("/")]
    if namespace is not None:
        segments += ["namespaces", namespace]
    segments.append(plural)
    if name is not None:
        segments.append(name)
    if subresource is not None:
        if name is None:
            raise ValueError(f"subresource {subresource!r} without a name")
        segments += subresource.split("/")
    for segment in segments:
        if segment in ("", ".", ".."):
            raise ValueError(f"{segment!r} is no name of a Kubernetes resource")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)
