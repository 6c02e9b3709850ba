"""Namespaces of a hub's servers where each user has one: a label says whose they are, and the chart's policy guards it.

A name proves nothing, as that of another hub's namespace may begin alike. Labels of pods elsewhere are a stranger's.
"""

from __future__ import annotations

import logging

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.hub_parts.hub_wide import this_hub

log = logging.getLogger(__name__)


async def own_namespaces(
    api: KubernetesApi, hub_namespace: str, *, timeout_seconds: float | None = None
) -> frozenset[str] | None:
    """Names of the namespaces with a hub's label; None if the hub may not list namespaces, so that none is known.

    Raises
    ------
    KubernetesError
        If the API server does not answer.
    """
    selector = f"{names.HUB_NAMESPACE}={hub_namespace}"
    try:
        listed = await api.list(
            resource_path("v1", "namespaces"), label_selector=selector, timeout_seconds=timeout_seconds
        )
    except KubernetesError as error:
        if error.status != 403:
            raise
        told: set[str] = this_hub().shared("hubs without the right to list namespaces", set)
        if hub_namespace not in told:
            told.add(hub_namespace)
            log.warning(
                "Labels of pods count in every namespace, as the hub may not list namespaces; upgrade the chart "
                "dra-spawner, or grant it: %s",
                error,
            )
        return None
    return frozenset(found["metadata"]["name"] for found in listed["items"])
