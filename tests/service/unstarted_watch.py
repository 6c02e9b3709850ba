"""A watch and a controller without a cluster, for tests that put objects into them themselves."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio.client import ApiClient

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController


class UnstartedWatch(ClusterWatch):
    """A watch that is never started; what tests put into it is everything."""

    @property
    def synced(self) -> bool:
        return True

    def __init__(self) -> None:
        super().__init__(KubernetesApi(ApiClient.__new__(ApiClient)))

    def notify(self, change: Change) -> None:
        """Notify all followers of a change that was made to the snapshot itself."""
        self._notify(change)


def unstarted_controller(
    settings: ControllerSettings | None = None, watch: ClusterWatch | None = None, **more: Any
) -> ScaleAheadController:
    """A controller that never leads; nothing is asked of its API."""
    api = KubernetesApi(ApiClient.__new__(ApiClient))
    found = settings or ControllerSettings("hub")
    return ScaleAheadController(api, watch or UnstartedWatch(), DecisionLog(), found, **more)
