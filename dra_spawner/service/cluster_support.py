"""Which release of Kubernetes the cluster has: whether the service is made for it, and by which rules it allocates.

Every account may ask for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NoReturn

from dra_spawner.dra.scheduler_rules import Release, inexact_rules, rules_of
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.versions import KUBERNETES, minor_version, version_problem

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 5.0
"""The watch begins after it, and says itself what is wrong with an API server that does not answer."""
_EVERY_SECONDS: Final = 300.0
"""An upgrade of the control plane takes minutes; kube-scheduler comes after the API server."""


async def cluster_version_problem(api: KubernetesApi) -> str:
    """A sentence if the cluster is older than what works, or newer than the tests know; empty if nobody answers.

    An older cluster is watched all the same: placeholders without devices work there.
    """
    return version_problem(KUBERNETES, await _release(api))


async def learn_release(api: KubernetesApi, watch: ClusterWatch, gates: Mapping[str, bool]) -> str:
    """Let the watch decide by the rules of the cluster's release; they stay as they are if nobody answers.

    Parameters
    ----------
    gates
        Feature gates of kube-scheduler that the administrator set otherwise than by default.

    Returns
    -------
    str
        A sentence if the release's rules are not known exactly, else empty.
    """
    release = await _release(api)
    problem = inexact_rules(release)
    if release is not None and (rules := rules_of(release, gates)) != watch.snapshot.rules:
        log.info("Devices are allocated as in a release: release=%s", ".".join(map(str, rules.release)))
        if problem:
            log.warning("%s", problem)
        watch.follow_rules(rules)
    return problem


async def follow_release(api: KubernetesApi, watch: ClusterWatch, gates: Mapping[str, bool]) -> NoReturn:
    """Look from time to time whether the cluster was upgraded."""
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        await learn_release(api, watch, gates)


async def _release(api: KubernetesApi) -> Release | None:
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            found = str((await api.get("/version")).get("gitVersion", ""))
    except (KubernetesError, TimeoutError) as error:
        log.debug("The version of the cluster is unknown: %s", error)
        return None
    return minor_version(found)
