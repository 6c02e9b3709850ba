"""A watch without a cluster, for tests that put objects into it themselves."""

from __future__ import annotations

from kubernetes_asyncio.client import ApiClient

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch


def unstarted_watch() -> ClusterWatch:
    """A watch that is never started."""
    return ClusterWatch(KubernetesApi(ApiClient.__new__(ApiClient)))
