"""Prometheus metrics of the service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_spawner.common.owned_tasks import TASK_FAILURES
from dra_spawner.kube.informers import InformerStatus
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.choice_names import is_combination
from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.figures.node_figures import ClassFigures, NodeFigures

__all__ = ["register"]

_PREFIX = "dra_spawner_"
#: Limit of classes and node pools whose series stay.
_MAX_SERIES: Final = 1_000


def register(context: ServiceContext) -> None:
    """Register the metrics of the service, its process and the devices."""
    registry = context.registry
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(TASK_FAILURES)
    registry.register(_ServiceCollector(context))
    registry.register(_DeviceCollector(context))
    registry.register(_ChoiceCollector(context))


class _ServiceCollector(Collector):
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        context = self._context
        yield GaugeMetricFamily(
            f"{_PREFIX}leader", "1 on the leader; 0 on other replicas", value=context.role is Role.LEADER
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}ready",
            "1 while the data of this replica are complete and fresh",
            value=context.readiness().ready,
        )
        decided_at = context.decisions.decided_at
        age = (context.now() - decided_at).total_seconds() if decided_at is not None else float("nan")
        yield GaugeMetricFamily(
            f"{_PREFIX}decision_age_seconds",
            "Seconds since the last round of decisions; NaN before the first",
            value=age,
        )
        decisions = CounterMetricFamily(f"{_PREFIX}decisions", "Decisions since the start")
        decisions.add_metric([], context.decisions.count)
        yield decisions
        if context.watch is not None:
            yield GaugeMetricFamily(
                f"{_PREFIX}staleness_seconds",
                "Age of the data about the cluster; +Inf until all were read",
                value=context.watch.staleness_seconds(),
            )
            yield from _informers(context.watch.status())


def _informers(status: tuple[InformerStatus, ...]) -> Iterator[Metric]:
    objects = GaugeMetricFamily(f"{_PREFIX}objects", "Objects of the cluster in memory", labels=["resource"])
    events = CounterMetricFamily(f"{_PREFIX}watch_events", "Events of watches", labels=["resource"])
    lists = CounterMetricFamily(f"{_PREFIX}watch_lists", "Complete lists", labels=["resource"])
    for each in status:
        objects.add_metric([each.resource], each.objects)
        events.add_metric([each.resource], each.events)
        lists.add_metric([each.resource], each.lists)
    yield from (objects, events, lists)


class _ChoiceCollector(Collector):
    """Availability of choices, as of the last answer about all of them."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            f"{_PREFIX}choice_starts_now",
            "1 where a server of the choice would start now, 0 where it would wait; none where it is not known",
            labels=["profile"],
        )
        answer = self._context.profile_answers.latest
        for each in answer.items if answer is not None else ():
            state = AvailabilityState((each["availability"] or {}).get("state", AvailabilityState.UNKNOWN))
            if state is not AvailabilityState.UNKNOWN and not is_combination(each["name"]):
                family.add_metric([each["name"]], state.is_now)
        yield family


class _DeviceCollector(Collector):
    """Utilization of devices, as of the last `NodeFigures.refresh`."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._seen: dict[tuple[str, str], None] = {}
        """Classes and node pools with a series: it stays when their devices vanish."""
        self._drivers_seen: dict[str, None] = {}
        """Drivers with a series."""

    def collect(self) -> Iterator[Metric]:
        figures = self._context.figures
        if figures is None:
            return
        labels = ["class", "pool"]
        ratio = GaugeMetricFamily(
            f"{_PREFIX}device_utilization_ratio",
            "Used part of a class's devices by node pool: of their capacity and counters (kind share), or of their "
            "number (kind device; a device with one used share counts as used); kind blocked: free devices whose "
            "counters other partitions use, of all",
            labels=[*labels, "kind"],
        )
        devices = GaugeMetricFamily(f"{_PREFIX}devices", "Devices of a class in complete pools", labels=labels)
        missing = GaugeMetricFamily(
            f"{_PREFIX}missing_devices",
            "Devices of claims that no driver publishes any more, by the class that was asked for",
            labels=labels,
        )
        self._seen |= dict.fromkeys(figures.by_class)
        while len(self._seen) > _MAX_SERIES:
            del self._seen[next(iter(self._seen))]
        for device_class, pool in sorted({*self._seen, *figures.by_class}):
            found = figures.by_class.get((device_class, pool), ClassFigures())
            devices.add_metric([device_class, pool], found.devices)
            missing.add_metric([device_class, pool], found.missing)
            for kind, used, number in (
                ("share", found.used, found.units),
                ("device", found.used_devices, found.devices),
                ("blocked", found.blocked_devices, found.devices),
            ):
                is_known = number and not found.missing
                ratio.add_metric([device_class, pool, kind], used / number if is_known else float("nan"))
        yield from (ratio, devices, missing)
        yield from self._drivers(figures)
        yield GaugeMetricFamily(
            f"{_PREFIX}nodes_with_unknown_utilization",
            "Nodes with unknown utilization; they are never drained",
            value=figures.unknown_nodes,
        )

    def _drivers(self, figures: NodeFigures) -> Iterator[Metric]:
        present = GaugeMetricFamily(f"{_PREFIX}nodes_with_devices", "Nodes with devices of a driver", labels=["driver"])
        lost = GaugeMetricFamily(
            f"{_PREFIX}nodes_without_devices",
            "Present nodes of which a driver published devices, and publishes none now",
            labels=["driver"],
        )
        nodes = figures.nodes_of_drivers()
        self._drivers_seen |= dict.fromkeys(nodes)
        while len(self._drivers_seen) > _MAX_SERIES:
            del self._drivers_seen[next(iter(self._drivers_seen))]
        for driver in sorted({*self._drivers_seen, *nodes}):
            with_devices, without = nodes.get(driver, ([], []))
            present.add_metric([driver], len(with_devices))
            lost.add_metric([driver], len(without))
        yield from (present, lost)
