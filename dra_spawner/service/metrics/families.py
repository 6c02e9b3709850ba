"""Families of Prometheus metrics from figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

PREFIX: Final = "dra_spawner_"

#: A figure without labels, or figures by the value of the label, or by the values of the labels in order.
Figures = float | Mapping[Any, float]


F = TypeVar("F", GaugeMetricFamily, CounterMetricFamily)


class _Collector(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def register_families(registry: CollectorRegistry, collect: Callable[[], Iterable[Metric]]) -> None:
    """Register a function that returns the families of the moment."""
    registry.register(_Collector(collect))


def gauge(name: str, text: str, figures: Figures, *labels: str) -> GaugeMetricFamily:
    """A family of gauges; its name gets the prefix of this project."""
    return _filled(GaugeMetricFamily(f"{PREFIX}{name}", text, labels=labels), figures)


def counter(name: str, text: str, figures: Figures, *labels: str) -> CounterMetricFamily:
    """A family of counters; see `gauge`."""
    return _filled(CounterMetricFamily(f"{PREFIX}{name}", text, labels=labels), figures)


def _filled(family: F, figures: Figures) -> F:
    by_values: Mapping[Any, float] = figures if isinstance(figures, Mapping) else {(): figures}
    values: Any
    for values, figure in by_values.items():
        family.add_metric([values] if isinstance(values, str) else [*values], figure)
    return family
