"""Prometheus metrics of calendars and of their rehearsals. Only the leader has them, as it alone reads calendars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import VerdictKind
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries

__all__ = ["register_calendars"]

_PREFIX = "dra_spawner_"


def register_calendars(
    registry: CollectorRegistry, controller: ScaleAheadController, rehearsed: RehearsedEntries
) -> None:
    """Register the age of calendars, and the verdicts of rehearsals."""
    registry.register(_CalendarCollector(controller, rehearsed))


class _CalendarCollector(Collector):
    def __init__(self, controller: ScaleAheadController, rehearsed: RehearsedEntries) -> None:
        self._controller = controller
        self._rehearsed = rehearsed

    def collect(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            f"{_PREFIX}calendar_age_seconds",
            "Seconds since a calendar was last read; +Inf before the first time",
            labels=["calendar"],
        )
        entries = GaugeMetricFamily(
            f"{_PREFIX}calendar_entries",
            "Calendar entries that begin within a day, by the verdict of their last rehearsal",
            labels=["verdict"],
        )
        if self._controller.leads:
            now = self._controller.now()
            for source in self._controller.scale_ahead.calendars.sources:
                found = source.age(now)
                age.add_metric([source.name], found.total_seconds() if found is not None else float("inf"))
            coming = [each for entry, each in self._rehearsed.results.items() if entry.begins > now]
            counts = Counter(each.verdict_kind for each in coming)
            for kind in VerdictKind:
                entries.add_metric([kind], counts[kind])
        yield from (age, entries)
