"""Whether the cluster is of a version that the service is made for. Every account may ask for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.versions import KUBERNETES, minor_version, version_problem

__all__ = ["cluster_version_problem"]

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 5.0
"""The watch begins after it, and says itself what is wrong with an API server that does not answer."""


async def cluster_version_problem(api: KubernetesApi) -> str:
    """A sentence if the cluster is older than what works, or newer than the tests know; empty if nobody answers.

    An older cluster is watched all the same: placeholders without devices work there.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            found = str((await api.get("/version")).get("gitVersion", ""))
    except (KubernetesError, TimeoutError) as error:
        log.debug("The version of the cluster is unknown: %s", error)
        return ""
    return version_problem(KUBERNETES, minor_version(found))
