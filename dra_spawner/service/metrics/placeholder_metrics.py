"""Prometheus metrics of placeholders and handovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.answers.availability import PlaceholderCounts, count_placeholders
from dra_spawner.placeholders.lifecycle import Cause, PlaceholderState
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.cluster.view import View, age, reservation_of
from dra_spawner.placeholders.planner.targets.choice_names import is_combination
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController

__all__ = ["register_placeholders"]

_PREFIX = "dra_spawner_"
_BUCKETS = (0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 20, 30, 60)
_CLAIM_STATES = ("free", "reserved", "in_use", "unallocated")


def register_placeholders(registry: CollectorRegistry, controller: ScaleAheadController) -> None:
    """Register the metrics of placeholders."""
    histogram = Histogram(
        f"{_PREFIX}handover_seconds",
        "Seconds from the reservation of a warm claim until the server's pod is on its node",
        buckets=_BUCKETS,
        registry=registry,
    )
    controller.handover_times.on_bound(histogram.observe)
    registry.register(_Collector(controller))


class _Collector(Collector):
    def __init__(self, controller: ScaleAheadController) -> None:
        self._controller = controller

    def collect(self) -> Iterator[Metric]:
        view = self._controller.view()
        yield from self._by_choice(count_placeholders(view))
        yield GaugeMetricFamily(
            f"{_PREFIX}longest_pending_server_seconds",
            "Seconds since the pod of the oldest server without a node was created; 0 without one",
            value=max((age(each.created, view.now).total_seconds() for each in view.pending_users), default=0.0),
        )
        slow = CounterMetricFamily(
            f"{_PREFIX}slow_servers", "Servers without a node for more than 60 % of the hub's start_timeout"
        )
        slow.add_metric([], self._controller.launch_waits.slow)
        yield slow
        yield self._targets()
        yield _claims(view)
        yield from self._counts()
        latest = self._controller.latest
        yield GaugeMetricFamily(
            f"{_PREFIX}on_hold",
            "1 while the leader's decisions are on hold; 0 on other replicas",
            value=latest is not None and bool(latest.on_hold),
        )

    def _by_choice(self, counts: dict[str, PlaceholderCounts]) -> Iterator[Metric]:
        placeholders: Counter[tuple[str, PlaceholderState]] = Counter()
        servers: Counter[str] = Counter()
        pending: Counter[str] = Counter()
        # Every published shape has a series, also without objects; combinations of options would be too many. Other
        # shapes with objects share one name.
        controller = self._controller
        named = {
            shape
            for shape in controller.policy.shapes
            if (name := controller.name_of(shape)) in controller.replicas or not is_combination(name)
        }
        for shape in sorted({*named, *counts}):
            found, name = counts.get(shape, PlaceholderCounts()), controller.name_of(shape) or "other"
            servers[name] += found.used
            pending[name] += found.pending
            for state in PlaceholderState:
                placeholders[name, state] += found.placeholders[state]
        family = GaugeMetricFamily(
            f"{_PREFIX}placeholders", "Placeholders by choice and state", labels=["profile", "state"]
        )
        for (name, state), number in placeholders.items():
            family.add_metric([name, state], number)
        yield family
        family = GaugeMetricFamily(f"{_PREFIX}servers", "Users' servers with a node, by choice", labels=["profile"])
        for name, number in servers.items():
            family.add_metric([name], number)
        yield family
        family = GaugeMetricFamily(f"{_PREFIX}pending_servers", "Users' servers without a node", labels=["profile"])
        for name, number in pending.items():
            family.add_metric([name], number)
        yield family

    def _targets(self) -> Metric:
        family = GaugeMetricFamily(
            f"{_PREFIX}placeholders_target", "Target of placeholders, by choice", labels=["profile", "source"]
        )
        for name, replicas in sorted(self._controller.settings.replicas.items()):
            family.add_metric([name, "configured"], replicas.min)
        for name, made in sorted(self._controller.scale_ahead.forecasts.items()):
            family.add_metric([name, "forecast"], made.target)
        return family

    def _counts(self) -> Iterator[Metric]:
        counts = self._controller.counts
        for name, text, label, values, found in (
            ("placements", "Placements by state", "state", AvailabilityState, counts.placements),
            ("evictions", "Placeholders that ended", "reason", Cause, counts.ended),
            ("evictions_held", "Denied evictions of placeholders", "rule", Hold, counts.denials),
        ):
            family = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=[label])
            for value in values:
                family.add_metric([value], found[value])  # type: ignore[index]
            yield family


def _claims(view: View) -> Metric:
    numbers: Counter[str] = Counter()
    with_placeholder = {key for placeholder in view.placeholders.values() for key in placeholder.claims}
    for tracked in view.warm_claims:
        if tracked.key not in with_placeholder:
            numbers["in_use"] += 1
        elif reservation_of(tracked) is not None:
            numbers["reserved"] += 1
        else:
            numbers["free" if tracked.claim.is_allocated else "unallocated"] += 1
    family = GaugeMetricFamily(f"{_PREFIX}placeholder_claims", "Warm claims by state", labels=["state"])
    for state in _CLAIM_STATES:
        family.add_metric([state], numbers[state])
    return family
