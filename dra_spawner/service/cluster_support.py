"""Whether the cluster is of a version that the service can work with. Every account may ask for it."""

from __future__ import annotations

import logging
from typing import Final

from dra_spawner import names
from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.versions import KUBERNETES, minor_version, version_problem

__all__ = ["lacks_device_claims", "newer_cluster"]

log = logging.getLogger(__name__)

_API: Final = f"/apis/{names.RESOURCE_API}"


async def lacks_device_claims(api: KubernetesApi) -> str:
    """Why this service can do nothing on the cluster, as a sentence; empty if it can, or if nobody answers."""
    try:
        await api.get(_API)
    except KubernetesError as error:
        if not error.not_found:
            return ""  # the watch says what is wrong
        found = await _version(api)
        return version_problem(KUBERNETES, minor_version(found)) or (
            f"Kubernetes {found} serves no {names.RESOURCE_API}: this API group was switched off at the API server."
        )
    return ""


async def newer_cluster(api: KubernetesApi) -> str:
    """A sentence if the cluster is newer than the tests know."""
    return version_problem(KUBERNETES, minor_version(await _version(api)))


async def _version(api: KubernetesApi) -> str:
    try:
        return str((await api.get("/version")).get("gitVersion", ""))
    except KubernetesError as error:
        log.debug("The version of the cluster is unknown: %s", error)
        return ""
