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
from dra_spawner.placeholders.planner.targets.choice_names import find_choice
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead, ScaleAheadSettings


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
        self.scale_ahead.is_told_to_act = lambda: self.overrides.present.acting is not None

    def not_preparing_because(self) -> str:
        """Why no placeholders are created for expected users, as a part of a sentence; empty if they are."""
        if not self.is_on:
            return "the service has no placeholders (setting placeholders)"
        mode = self.scale_ahead.mode
        return self.policy.observing_because or ("" if mode is ScaleAheadMode.ACT else f"scale-ahead only {mode}s")

    def choice_not_prepared_because(self, choice: str) -> str:
        """The same of a choice by its name; empty while the hub's choices are not known."""
        shapes = self.published.shapes
        found = find_choice(choice, shapes)
        if found is None:
            return "the hub publishes no such choice" if shapes else ""
        return self.not_prepared_because(choice, shapes[found].id)

    def not_prepared_because(self, profile: str, shape: str) -> str:
        """Why no placeholders are created for expected users of a choice, as `not_preparing_because` says it."""
        group = next((each for each in self.groups() if each.shape == shape), None)
        if because := self.not_preparing_because():
            return because
        if group is None:
            return f"{profile} has no placeholders"
        if shape in self.policy.paused:
            return f"placeholders of {profile} are paused"
        if not self.scale_ahead.follows_calendar(group):
            return f"the policy of {profile} does not follow the calendar"
        return ""

    def advance_forecasts(self) -> None:
        """Make the forecasts of the present minute, if it is a new one, and decide soon."""
        if self.scale_ahead.advance(self.view(), self.groups(), self.settings.policy.readiness.kind_label):
            self.wake()
