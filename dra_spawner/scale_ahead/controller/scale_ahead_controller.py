"""The controller of placeholders whose targets follow demand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings

__all__ = ["ScaleAheadController"]


class ScaleAheadController(PlaceholderController):
    """Manages placeholders with the targets of scale-ahead."""

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        decisions: DecisionLog,
        settings: ControllerSettings,
        *,
        scale_ahead: ScaleAhead | None = None,
        now: Callable[[], datetime] | None = None,
        times: ReconcilerTimes | None = None,
    ) -> None:
        self.scale_ahead = scale_ahead or ScaleAhead(ScaleAheadSettings())
        super().__init__(api, watch, decisions, settings, targets=self.scale_ahead, now=now, times=times)

    def advance_forecasts(self) -> None:
        """Make the forecasts of the present minute, if it is a new one, and decide soon."""
        if self.scale_ahead.advance(self.view(), self.groups(), self.settings.policy.readiness.kind_label):
            self.wake()
