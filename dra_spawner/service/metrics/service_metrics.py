"""Prometheus metrics of the service, its process and the devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from dra_spawner.common.owned_tasks import TASK_FAILURES
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.choice_names import is_combination
from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.figures.node_figures import ClassFigures, NodeFigures
from dra_spawner.service.metrics.families import counter, gauge, register_families

#: Limit of classes and node pools whose series stay.
_MAX_SERIES: Final = 1_000


def register(context: ServiceContext) -> None:
    """Register the metrics of the service, its process and the devices."""
    registry = context.registry
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(TASK_FAILURES)
    devices = _DeviceFamilies()
    register_families(registry, lambda: _service(context))
    register_families(
        registry, lambda: devices.of(context.figures) if context.figures and not context.unread_because() else ()
    )
    register_families(registry, lambda: _choices(context))


def _service(context: ServiceContext) -> Iterator[Metric]:
    yield gauge("leader", "1 on the leader; 0 on other replicas", context.role is Role.LEADER)
    yield gauge("ready", "1 while the data of this replica are complete and fresh", context.readiness().ready)
    decided_at = context.decisions.decided_at
    age = (context.now() - decided_at).total_seconds() if decided_at is not None else float("nan")
    yield gauge("decision_age_seconds", "Seconds since the last round of decisions; NaN before the first", age)
    yield counter("decisions", "Decisions since the start", context.decisions.count)
    if context.watch is None:
        return
    text = "Age of the data about the cluster; +Inf until all were read"
    yield gauge("staleness_seconds", text, context.watch.staleness_seconds())
    status = context.watch.status()
    yield gauge(
        "objects", "Objects of the cluster in memory", {each.resource: each.objects for each in status}, "resource"
    )
    yield counter("watch_events", "Events of watches", {each.resource: each.events for each in status}, "resource")
    yield counter("watch_lists", "Complete lists", {each.resource: each.lists for each in status}, "resource")


def _choices(context: ServiceContext) -> Iterator[Metric]:
    """Availability of choices, as of the last answer about all of them."""
    answer, found = context.profile_answers.latest, dict[str, bool]()
    for each in answer.items if answer is not None else ():
        state = AvailabilityState((each["availability"] or {}).get("state", AvailabilityState.UNKNOWN))
        if state is not AvailabilityState.UNKNOWN and not is_combination(each["name"]):
            found[each["name"]] = state.is_now
    text = "1 where a server of the choice would start now, 0 where it would wait; none where it is not known"
    yield gauge("choice_starts_now", text, found, "profile")


class _DeviceFamilies:
    """Utilization of devices, as of the last `NodeFigures.refresh`."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}
        """Classes and node pools with a series: it stays when their devices vanish."""
        self._drivers_seen: dict[str, None] = {}
        """Drivers with a series."""

    def of(self, figures: NodeFigures) -> Iterator[Metric]:
        self._seen |= dict.fromkeys(figures.by_class)
        while len(self._seen) > _MAX_SERIES:
            del self._seen[next(iter(self._seen))]
        present = sorted({*self._seen, *figures.by_class})
        found = {key: figures.by_class.get(key, ClassFigures()) for key in present}
        ratios = {
            (*key, kind): used / number if number and not each.missing else float("nan")
            for key, each in found.items()
            for kind, used, number in (
                ("share", each.used, each.units),
                ("device", each.used_devices, each.devices),
                ("blocked", each.blocked_devices, each.devices),
            )
        }
        text = (
            "Used part of a class's devices by node pool: of their capacity and counters (kind share), or of their "
            "number (kind device; a device with one used share counts as used); kind blocked: free devices whose "
            "counters other partitions use, of all"
        )
        yield gauge("device_utilization_ratio", text, ratios, "class", "pool", "kind")
        devices = {key: each.devices for key, each in found.items()}
        yield gauge("devices", "Devices of a class in complete pools", devices, "class", "pool")
        text = "Devices of claims that no driver publishes any more, by the class that was asked for"
        yield gauge("missing_devices", text, {key: each.missing for key, each in found.items()}, "class", "pool")
        yield from self._drivers(figures)
        text = "Nodes with unknown utilization; they are never drained"
        yield gauge("nodes_with_unknown_utilization", text, figures.unknown_nodes)

    def _drivers(self, figures: NodeFigures) -> Iterator[Metric]:
        nodes = figures.nodes_of_drivers()
        self._drivers_seen |= dict.fromkeys(nodes)
        while len(self._drivers_seen) > _MAX_SERIES:
            del self._drivers_seen[next(iter(self._drivers_seen))]
        found = {driver: nodes.get(driver, ([], [])) for driver in sorted({*self._drivers_seen, *nodes})}
        present = {driver: len(with_devices) for driver, (with_devices, _) in found.items()}
        yield gauge("nodes_with_devices", "Nodes with devices of a driver", present, "driver")
        text = "Present nodes of which a driver published devices, and publishes none now"
        lost = {driver: len(without) for driver, (_, without) in found.items()}
        yield gauge("nodes_without_devices", text, lost, "driver")
