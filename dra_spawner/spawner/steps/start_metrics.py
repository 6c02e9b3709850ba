"""What DRASpawner counts; at the hub's own ``/hub/metrics``."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from dra_spawner.spawner.steps.device_trouble import TroubleKind

__all__ = ["STARTS_MADE_AGAIN"]

STARTS_MADE_AGAIN: Final = Counter(
    "dra_spawner_starts_made_again",
    "Starts whose pod was made again, since its node or its device kept it from running",
    ["reason"],
)
for _kind in TroubleKind:
    # From the beginning, so that no dashboard misses a series.
    STARTS_MADE_AGAIN.labels(_kind.value)
