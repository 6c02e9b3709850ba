"""Metrics of DRASpawner, at the hub's own ``/hub/metrics``."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from dra_spawner.spawner.steps.pod_failures import PodFailureKind

__all__ = ["PODS_RECREATED"]

PODS_RECREATED: Final = Counter(
    "dra_spawner_pods_recreated",
    "Pods of servers that were created again, since the node or the device of the first pod failed",
    ["reason"],
)
for _kind in PodFailureKind:
    # Created up front, so that dashboards never miss a series.
    PODS_RECREATED.labels(_kind.value)
