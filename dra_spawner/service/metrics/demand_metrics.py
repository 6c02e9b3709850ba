"""Prometheus metrics of forecasts and actual demand. Only the leader has them, so that sums count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.scale_ahead.controller.scale_ahead import ScaleAhead

__all__ = ["register_demand"]

_PREFIX = "dra_spawner_"


def register_demand(registry: CollectorRegistry, scale_ahead: ScaleAhead) -> None:
    """Register the metrics of forecasts."""
    registry.register(_DemandCollector(scale_ahead))


class _DemandCollector(Collector):
    def __init__(self, scale_ahead: ScaleAhead) -> None:
        self._ahead = scale_ahead

    def collect(self) -> Iterator[Metric]:
        ahead = self._ahead
        idle = CounterMetricFamily(
            f"{_PREFIX}idle_placeholder_seconds",
            "Seconds of warm placeholders without a server, each placeholder by itself",
            labels=["profile"],
        )
        for name, hours in sorted(ahead.idle_hours.items()):
            idle.add_metric([name], hours * 3600)
        yield idle
        pool = CounterMetricFamily(
            f"{_PREFIX}pool_launches",
            "Launches, by whether they found a warm placeholder",
            labels=["profile", "outcome"],
        )
        _add_both(pool, ahead.launches, "hit", "miss")
        yield pool
        judged = CounterMetricFamily(
            f"{_PREFIX}forecasts",
            "Forecasts whose lead time is over, by whether their placeholders were enough for all launches",
            labels=["profile", "outcome"],
        )
        _add_both(judged, ahead.judged, "enough", "short")
        yield judged
        yield from self._present()

    def _present(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            f"{_PREFIX}pool_hit_target_ratio",
            "Part of the launches that should find a warm placeholder, as configured",
            value=self._ahead.settings.options.settings.hit_rate,
        )
        forecast, factor, expected, actual = (
            GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=["profile"])
            for name, text in (
                ("forecast_placeholders", "Placeholders that the forecast needs now"),
                ("forecast_safety_factor", "Standard deviations that the forecast adds, learned from past errors"),
                ("forecast_growth_expected", "Growth of servers in the last lead time, forecast at its beginning"),
                ("forecast_growth_actual", "The largest actual growth of servers within the last lead time"),
            )
        )
        for name, made in sorted(self._ahead.forecasts.items()):
            forecast.add_metric([name], made.forecast.placeholders)
            factor.add_metric([name], made.forecast.factor)
            demand = self._ahead.demand_of(name)
            if demand is not None and (judged := demand.record.judged) is not None:
                expected.add_metric([name], judged.expected)
                actual.add_metric([name], judged.growth)
        yield from (forecast, factor, expected, actual)


def _add_both(family: CounterMetricFamily, counts: Counter[tuple[str, bool]], if_true: str, if_false: str) -> None:
    """Both outcomes of each group, as a share needs both."""
    for name in sorted({name for name, _ in counts}):
        family.add_metric([name, if_true], counts[name, True])
        family.add_metric([name, if_false], counts[name, False])
