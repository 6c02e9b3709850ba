"""Prometheus metrics of the history's recording."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dra_spawner.history.recorder import RecordOutcome
from dra_spawner.service.history_recording import HistoryRecording
from dra_spawner.service.metrics.families import counter, gauge, register_families


def register_history(registry: CollectorRegistry, history: HistoryRecording) -> None:
    """Register the metrics of records."""

    def collect() -> Iterator[Metric]:
        recorder = history.recorder
        records = {outcome.value: recorder.counts[outcome] for outcome in RecordOutcome}
        yield counter("history_records", "Records that were written, or dropped", records, "outcome")
        yield gauge("history_queued", "Records that wait for the database", recorder.queued)
        text = "0 while the last attempt to write has failed, else 1"
        yield gauge("history_available", text, not recorder.problem)

    register_families(registry, collect)
