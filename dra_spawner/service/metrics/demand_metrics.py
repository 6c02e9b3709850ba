"""Prometheus metrics of forecasts, demand and calendars. Only the leader has them, so that sums count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.scale_ahead.rehearsal.rehearsal_result import VerdictKind
from dra_spawner.service.ahead.rehearsed_entries import RehearsedEntries
from dra_spawner.service.metrics.families import counter, gauge, register_families


def register_demand(registry: CollectorRegistry, ahead: ScaleAhead) -> None:
    """Register the metrics of forecasts."""

    def collect() -> Iterator[Metric]:
        idle = {name: hours * 3600 for name, hours in sorted(ahead.idle_hours.items())}
        text = "Seconds of warm placeholders without a server, each placeholder by itself"
        yield counter("idle_placeholder_seconds", text, idle, "profile")
        launches = _both(ahead.launches, "hit", "miss")
        text = "Launches, by whether they found a warm placeholder"
        yield counter("pool_launches", text, launches, "profile", "outcome")
        judged = _both(ahead.judged, "enough", "short")
        text = "Forecasts whose lead time is over, by whether their placeholders were enough for all launches"
        yield counter("forecasts", text, judged, "profile", "outcome")
        text = "Part of the launches that should find a warm placeholder, as configured"
        yield gauge("pool_hit_target_ratio", text, ahead.settings.options.settings.hit_rate)
        made = {name: each.forecast for name, each in sorted(ahead.forecasts.items())}
        needed = {name: each.placeholders for name, each in made.items()}
        yield gauge("forecast_placeholders", "Placeholders that the forecast needs now", needed, "profile")
        text = "Standard deviations that the forecast adds, learned from past errors"
        yield gauge("forecast_safety_factor", text, {name: each.factor for name, each in made.items()}, "profile")
        demands = {name: demand for name in made if (demand := ahead.demand_of(name)) is not None}
        grown = {name: each.record.judged for name, each in demands.items() if each.record.judged is not None}
        text = "Growth of servers in the last lead time, forecast at its beginning"
        yield gauge("forecast_growth_expected", text, {name: each.expected for name, each in grown.items()}, "profile")
        text = "The largest actual growth of servers within the last lead time"
        yield gauge("forecast_growth_actual", text, {name: each.growth for name, each in grown.items()}, "profile")

    register_families(registry, collect)


def _both(counts: Counter[tuple[str, bool]], if_true: str, if_false: str) -> dict[tuple[str, ...], int]:
    """Both outcomes of each group, as a share needs both."""
    groups = sorted({name for name, _ in counts})
    return {
        (name, text): counts[name, is_it] for name in groups for text, is_it in ((if_true, True), (if_false, False))
    }


def register_calendars(
    registry: CollectorRegistry, controller: ScaleAheadController, rehearsed: RehearsedEntries
) -> None:
    """Register the age of calendars, and the verdicts of rehearsals."""

    def collect() -> Iterator[Metric]:
        ages, verdicts = dict[str, float](), dict[str, float]()
        if controller.leads:  # it alone reads calendars
            now = controller.now()
            for source in controller.scale_ahead.calendars.sources:
                age = source.age(now)
                ages[source.name] = age.total_seconds() if age is not None else float("inf")
            coming = [each for entry, each in rehearsed.results.items() if entry.begins > now]
            counts = Counter(each.verdict_kind for each in coming)
            verdicts = {kind.value: counts[kind] for kind in VerdictKind}
        text = "Seconds since a calendar was last read; +Inf before the first time"
        yield gauge("calendar_age_seconds", text, ages, "calendar")
        text = "Calendar entries that begin within a day, by the verdict of their last rehearsal"
        yield gauge("calendar_entries", text, verdicts, "verdict")

    register_families(registry, collect)
