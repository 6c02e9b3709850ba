"""A watch without a cluster, for tests that put objects into it themselves."""

from __future__ import annotations

from kubernetes_asyncio.client import ApiClient

from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.cluster_watch import Change, ClusterWatch


class UnstartedWatch(ClusterWatch):
    """A watch that is never started."""

    def __init__(self) -> None:
        super().__init__(KubernetesApi(ApiClient.__new__(ApiClient)))

    def notify(self, change: Change) -> None:
        """Notify all followers of a change that was made to the snapshot itself."""
        self._notify(change)
