"""Prometheus metrics of the history's recording."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.history.recorder import RecordOutcome
from dra_spawner.service.history_recording import HistoryRecording

__all__ = ["register_history"]

_PREFIX = "dra_spawner_history_"


def register_history(registry: CollectorRegistry, history: HistoryRecording) -> None:
    """Register the metrics of records."""
    registry.register(_HistoryCollector(history))


class _HistoryCollector(Collector):
    def __init__(self, history: HistoryRecording) -> None:
        self._history = history

    def collect(self) -> Iterator[Metric]:
        recorder = self._history.recorder
        records = CounterMetricFamily(f"{_PREFIX}records", "Records that were written, or dropped", labels=["outcome"])
        for outcome in RecordOutcome:
            records.add_metric([outcome.value], recorder.counts[outcome])
        yield records
        yield GaugeMetricFamily(f"{_PREFIX}queued", "Records that wait for the database", value=recorder.queued)
        yield GaugeMetricFamily(
            f"{_PREFIX}available", "0 while the last attempt to write has failed, else 1", value=not recorder.problem
        )
