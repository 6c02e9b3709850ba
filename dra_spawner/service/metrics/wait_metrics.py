"""Prometheus metrics about estimates of waits: by the leader alone, so that sums count once."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.placeholders.controller.answers.wait_calibration import EstimateOutcome, WaitCalibration

__all__ = ["register_waits"]


def register_waits(registry: CollectorRegistry, calibration: WaitCalibration) -> None:
    """Register how estimates came out."""
    registry.register(_Collector(calibration))


class _Collector(Collector):
    def __init__(self, calibration: WaitCalibration) -> None:
        self._calibration = calibration

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "dra_spawner_wait_estimates",
            "Waits of pending servers whose estimate is an interval: inside of it, before it (early), after it (late)",
            labels=["outcome"],
        )
        for outcome in EstimateOutcome:
            family.add_metric([outcome.value], self._calibration.counts[outcome])
        yield family
