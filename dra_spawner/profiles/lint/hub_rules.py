"""Rules about a hub's values as a whole; `dra-spawner check` finds them while it reads the values."""

from __future__ import annotations

from typing import Final

from dra_spawner.profiles.findings import Level, LintRule, rules_of

_E, _W = Level.ERROR, Level.WARNING

UNREAD_CODE: Final = LintRule(
    "unread-code",
    (_W, _E),
    False,
    "Code of the configuration that could not be run here, or is no Python: the check is not complete",
)
HUB_VALUES: Final = LintRule(
    "hub-values", (_E, _W), False, "Values that zero-to-jupyterhub refuses, passes over, or overrides"
)
USER_SCHEDULER: Final = LintRule(
    "user-scheduler",
    (_E, _W),
    False,
    "The chart's own scheduler, which up to chart 4.4 starts pods without their devices",
)
SPAWNER_CLASS: Final = LintRule(
    "spawner-class", (_E, _W), False, "A spawner class that is not DRASpawner: device_claims have no effect"
)
CHART_PLACEHOLDERS: Final = LintRule(
    "chart-placeholders", (_W,), False, "The chart's own placeholders, which have no devices"
)
PULLER: Final = LintRule(
    "puller-skips-nodes", (_W,), False, "The chart's image puller does not tolerate taints that a profile tolerates"
)
HUB_SETTINGS: Final = LintRule(
    "hub-settings",
    (_E, _W),
    False,
    "Settings of DRASpawner that it refuses, that contradict one another, or that have no effect",
)
SERVICE_SETTINGS: Final = LintRule(
    "service-settings",
    (_E, _W, Level.INFO),
    False,
    "Settings of dra-spawner service that it refuses, that lack what they need, or that the hub's contradict",
)

HUB_RULES: Final = rules_of(globals())
