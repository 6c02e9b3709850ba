"""Utilization of nodes as JSON, computed node by node, so that 5,000 nodes do not block the event loop."""

from __future__ import annotations

import asyncio
import bisect
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.counted_text import listed
from dra_spawner.dra.model.objects import AllocatedDevice, DeviceId
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.planner.cluster.view import reservation_of
from dra_spawner.service.figures.closed_devices import closed_on
from dra_spawner.service.figures.device_bars import Bar, HolderKind, device_bars
from dra_spawner.service.figures.stale_nodes import SPARE, StaleNodes
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.usage.device_doubts import MissingDevice, withdraws_held_devices
from dra_spawner.simulator.usage.utilization import NodeUtilization, Utilization
from dra_spawner.simulator.usage.weighted_utilization import DeviceUse, WeightedUtilization, used_units

_TURN_SECONDS: Final = 0.005
"""Limit of the time for which the event loop is blocked."""
_UTILIZATION_KINDS: Final = frozenset({Kind.RESOURCE_SLICE, Kind.DEVICE_CLASS})
"""Kinds that a `Utilization` caches."""

#: Limit of the vanished devices and nodes that a problem names.
_NAMED: Final = 3
PUBLISHES_NONE: Final = "published devices, and publishes none now"

_Holders = dict[DeviceId, list[tuple[ObjectKey, AllocatedDevice]]]


@dataclass(slots=True)
class ClassFigures:
    """Devices of one class, on nodes of one pool."""

    devices: int = 0
    used_devices: int = 0
    """Devices that are at least partly in use."""
    blocked_devices: int = 0
    """Free devices whose counters other devices have taken."""
    units: int = 0
    """Whole devices, and counter sets behind partitions: see `used_units`."""
    used: float = 0.0
    """Sum of the parts of the units that devices of the class use, each from 0 to 1."""
    missing: int = 0
    """Allocated devices that are not published any more; while there are any, it is not known how much is in use."""

    def add(self, other: ClassFigures) -> None:
        self.devices += other.devices
        self.used_devices += other.used_devices
        self.blocked_devices += other.blocked_devices
        self.units += other.units
        self.used += other.used
        self.missing += other.missing

    @property
    def idle_devices(self) -> int:
        """Devices that a server could have."""
        return self.devices - self.used_devices - self.blocked_devices


def class_figures(uses: Sequence[DeviceUse]) -> ClassFigures:
    """Figures of a class's devices on one node."""
    used, units = used_units(uses)
    return ClassFigures(
        devices=len(uses),
        used_devices=sum(each.use > 0 for each in uses),
        blocked_devices=sum(each.is_blocked for each in uses),
        units=units,
        used=float(used),
    )


@dataclass(frozen=True, slots=True)
class _NodeSummary:
    classes: Mapping[tuple[str, str], ClassFigures]
    is_unknown: bool
    missing: tuple[MissingDevice, ...] = ()
    used: Mapping[str, tuple[DeviceId, ...]] = field(default_factory=dict)
    """Devices that claims have, by device class."""


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A claim of users' servers on a device."""

    node: str
    device: DeviceId
    claim: ObjectKey


class NodeFigures:
    """Computes utilization figures of the watched nodes.

    Figures of one node are consistent; figures of different nodes may be some milliseconds apart.

    Parameters
    ----------
    node_pool_labels
        See `ServiceContext`.
    """

    def __init__(
        self,
        watch: ClusterWatch,
        node_pool_labels: Sequence[str] = (),
    ) -> None:
        self._watch = watch
        self._node_pool_labels = tuple(node_pool_labels)
        self._utilization: Utilization | None = None
        self._held: tuple[int, _Holders] = (-1, {})
        self._classes: dict[tuple[str, str], ClassFigures] = {}
        self._unknown = 0
        self._of_node: dict[str, _NodeSummary] = {}
        self._stale = StaleNodes(watch.snapshot)
        self._working = asyncio.Lock()
        self._published: dict[str, dict[str, set[str]]] = {}
        """By node and driver: names of the last slices that had devices."""
        for slice_name in watch.snapshot.slices:
            self._note_driver(slice_name)
        watch.on_change(self._note)

    async def nodes(self, *, after: str = "", limit: int = 100, name: str = "") -> tuple[list[dict[str, Any]], str]:
        """Nodes in the order of their names.

        Parameters
        ----------
        after
            Begin after this name.
        name
            Only this node.

        Returns
        -------
        list, str
            The nodes, and the value of `after` for the next page; empty at the end.
        """
        snapshot = self._watch.snapshot
        known = [name] if name else sorted(snapshot.nodes)
        begin = bisect.bisect_right(known, after) if after else 0
        chosen = known[begin : begin + limit]
        found: list[dict[str, Any]] = []
        slice_ = TimeSlice()
        for each in chosen:
            if each in snapshot.nodes:
                found.append(self._node(each))
            await slice_.yield_when_over()
        return found, chosen[-1] if chosen and begin + limit < len(known) else ""

    def bars_of(self, name: str) -> list[Bar]:
        """The devices of a node as bars."""
        held, uses = self._holders(), self._present().devices_of(name)
        return device_bars(
            uses, lambda device: held.get(device, ()), self._holder_kind, closed_on(self._watch.snapshot, name)
        )

    def utilization_of(self, name: str) -> WeightedUtilization:
        """The utilization of a node by capacity and counters."""
        return self._known_utilization(name).weighted

    def _known_utilization(self, name: str) -> NodeUtilization:
        """The utilization of a node, unknown while a driver does not publish what it published there."""
        found = self._present().of(name)
        lost = self.lost_of(name)
        if not lost:
            return found
        problems = (f"the driver {driver} {PUBLISHES_NONE}" for driver in lost)
        weighted = WeightedUtilization(found.weighted.pools, (*found.weighted.problems, *problems))
        return replace(found, weighted=weighted)

    def _holder_kind(self, key: ObjectKey) -> HolderKind:
        """Who has a claim: a placeholder until a server's pod has it, too."""
        snapshot = self._watch.snapshot
        claim = snapshot.claims.get(key)
        consumers = claim.consumers if claim is not None else ()
        pods = [snapshot.pods.get(ObjectKey(key.namespace, each.name)) for each in consumers]
        are_placeholders = [pod is not None and pod.labels.get(names.COMPONENT) == names.PLACEHOLDER for pod in pods]
        # While a placeholder's pod is replaced, its claim has no pod, but still its label.
        is_kept = all(are_placeholders) if pods else claim is not None and names.SHAPE in claim.labels
        return HolderKind.PLACEHOLDER if is_kept else HolderKind.USER

    def _node(self, name: str) -> dict[str, Any]:
        snapshot, utilization = self._watch.snapshot, self._present()
        state = snapshot.nodes[name]
        observed = self._watch.observed(Kind.NODE, ObjectKey("", name))
        figures = self._known_utilization(name)
        return {
            "name": name,
            "labels": dict(state.node.labels),
            "node_pool": self.node_pool(state.node.labels),
            "created": observed.created if observed is not None else "",
            "ready": state.node.is_ready,
            "schedulable": not state.node.is_unschedulable,
            "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in state.node.taints],
            "pods": len(state.pods),
            "utilization": _utilization_json(figures),
            "devices": self._devices(name, utilization),
        }

    def _devices(self, name: str, utilization: Utilization) -> list[dict[str, Any]]:
        """Devices of complete pools; an incomplete pool is a problem of the utilization."""
        devices = utilization.devices_of(name)
        held = self._holders()
        return [self._device(use, held.get(use.device.id, []), utilization) for use in devices]

    def _device(
        self, use: DeviceUse, held: list[tuple[ObjectKey, AllocatedDevice]], utilization: Utilization
    ) -> dict[str, Any]:
        device = use.device
        return {
            "driver": device.id.driver,
            "pool": device.id.pool,
            "name": device.id.device,
            "classes": list(utilization.classes_of(device)),
            "shared": device.is_shared,
            "attributes": {key: each.value for key, each in sorted(device.description.attributes.items())},
            "capacity": {key: str(each.value) for key, each in sorted(device.description.capacity.items())},
            "use": float(use.not_available),
            "blocked": use.is_blocked,
            "claims": [self._claim(key, part) for key, part in sorted(held, key=lambda each: each[0])],
        }

    def _claim(self, key: ObjectKey, part: AllocatedDevice) -> dict[str, Any]:
        claim = self._watch.snapshot.claims.get(key)
        pods = sorted(each.name for each in claim.consumers if each.resource == "pods") if claim is not None else []
        reservation = reservation_of(claim)
        return {
            "namespace": key.namespace,
            "name": key.name,
            "consumed": {name: str(amount) for name, amount in sorted((part.consumed_capacity or {}).items())},
            "admin_access": part.admin_access,
            "pods": pods,
            "reserved_for": reservation.pod if reservation is not None and reservation.pod not in pods else "",
        }

    def _holders(self) -> _Holders:
        """The claims of each device, each with its part of the device."""
        version, found = self._held
        if version != self._watch.version:
            found = {}
            for key, parts in self._watch.snapshot.state.devices.holders.items():
                assert isinstance(key, ObjectKey)
                for part in parts:
                    found.setdefault(part.id, []).append((key, part))
            self._held = self._watch.version, found
        return found

    @property
    def by_class(self) -> Mapping[tuple[str, str], ClassFigures]:
        """Figures by device class and node pool, as of the last `refresh`."""
        return self._classes

    @property
    def unknown_nodes(self) -> int:
        """Number of nodes with unknown utilization, as of the last `refresh`."""
        return self._unknown

    async def refresh(self) -> None:
        """Compute the figures of changed nodes."""
        async with self._working:
            slice_ = TimeSlice()
            stale = self._stale.take(self._watch.snapshot.nodes)
            try:
                while stale:
                    if stale[-1] in self._watch.snapshot.nodes:
                        self._of_node[stale[-1]] = self._summarize(stale[-1])
                    stale.pop()
                    await slice_.yield_when_over()
            finally:
                self._stale.put_back(stale)
            for name in self._of_node.keys() - self._watch.snapshot.nodes.keys():
                del self._of_node[name]
            classes: dict[tuple[str, str], ClassFigures] = {}
            for found in self._of_node.values():
                for key, figures in found.classes.items():
                    classes.setdefault(key, ClassFigures()).add(figures)
            self._classes = classes
            self._unknown = sum(found.is_unknown for found in self._of_node.values())

    def _summarize(self, name: str) -> _NodeSummary:
        utilization = self._present()
        node_pool = self.node_pool(self._watch.snapshot.nodes[name].node.labels)
        of_class: dict[str, list[DeviceUse]] = {}
        for use in utilization.devices_of(name):
            for device_class in utilization.classes_of(use.device):
                of_class.setdefault(device_class, []).append(use)
        classes = {(device_class, node_pool): class_figures(uses) for device_class, uses in of_class.items()}
        missing = utilization.doubts_of(name).missing
        for each in missing:
            for device_class in self._classes_asked(each):
                classes.setdefault((device_class, node_pool), ClassFigures()).missing += 1
        used = {each: tuple(use.device.id for use in uses if use.use > 0) for each, uses in of_class.items()}
        return _NodeSummary(classes, bool(utilization.of(name).weighted.problems), missing, used)

    def holders(self, classes: Collection[str], most: int) -> list[DeviceHolder]:
        """Claims of users' servers on devices of some classes, as of the last `refresh`, in the order of the nodes.

        Parameters
        ----------
        most
            Limit of the answer.
        """
        held, found = self._holders(), dict[ObjectKey, DeviceHolder]()
        for name in sorted(self._of_node):
            of_node = self._of_node[name].used
            for device in sorted({each for wanted in classes for each in of_node.get(wanted, ())}):
                for key, _ in held.get(device, ()):
                    if key not in found and self._holder_kind(key) is HolderKind.USER:
                        found[key] = DeviceHolder(name, device, key)
                        if len(found) == most:
                            return list(found.values())
        return list(found.values())

    def _classes_asked(self, missing: MissingDevice) -> set[str]:
        """The device classes by which a claim asked for a device."""
        tracked = self._watch.snapshot.claims.get(ObjectKey(*missing.claim.split("/", 1)))
        if tracked is None:
            return set()
        requests = {part.request for part in tracked.claim.status.devices or () if part.id == missing.device}
        return {
            each.device_class_name
            for request in tracked.claim.requests
            for each in request.alternatives
            if (f"{request.name}/{each.name}" if request.first_available else request.name) in requests
        }

    @property
    def missing(self) -> tuple[MissingDevice, ...]:
        """Allocated devices of all nodes that are not published any more, as of the last `refresh`."""
        return tuple(each for name in sorted(self._of_node) for each in self._of_node[name].missing)

    def problems(self) -> tuple[str, ...]:
        """Devices and drivers that have vanished, as sentences; devices as of the last `refresh`."""
        missing = self.missing
        more = f" {len(missing) - _NAMED:,} more devices are missing." if len(missing) > _NAMED else ""
        told = [f"{str(each)[0].upper()}{str(each)[1:]} (driver {each.device.driver})." for each in missing[:_NAMED]]
        # A driver that is gone is the cause of many missing devices.
        return (*self._lost_drivers(), *told, *([more.strip()] if more else []))

    def nodes_of_drivers(self) -> dict[str, tuple[list[str], list[str]]]:
        """By driver: present nodes with devices of it, and nodes of which it published devices, and publishes none."""
        found: dict[str, tuple[list[str], list[str]]] = {
            driver: ([], []) for known in self._published.values() for driver in known
        }
        for node in sorted(self._published.keys() & self._watch.snapshot.nodes.keys()):
            lost = self.lost_of(node)
            for driver in self._published[node]:
                found[driver][driver in lost].append(node)
        return found

    def _lost_drivers(self) -> list[str]:
        """Drivers that published devices of present nodes, and publish none."""
        return [
            f"The driver {driver} published devices of {listed(lost, _NAMED, noun='nodes')}, and publishes none there "
            "now."
            for driver, (_, lost) in self.nodes_of_drivers().items()
            if lost
        ]

    def lost_of(self, node: str) -> list[str]:
        """Drivers that published devices of a node, and publish none; DRANET's may all be in use."""
        slices = self._watch.snapshot.slices

        def has_devices(name: str) -> bool:
            item = slices.get(name)
            return item is not None and item.node_name == node and bool(item.devices)

        return sorted(
            driver
            for driver, names in self._published.get(node, {}).items()
            if not withdraws_held_devices(driver) and not any(map(has_devices, names))
        )

    def node_pool(self, labels: Mapping[str, str]) -> str:
        """The pool of a node with these labels; empty if no label names one."""
        return next((labels[label] for label in self._node_pool_labels if label in labels), "")

    def _present(self) -> Utilization:
        if self._utilization is None:
            self._utilization = Utilization(self._watch.snapshot)
        return self._utilization

    def _note(self, change: Change) -> None:
        if change.decides:
            self._stale.note(change.kind, change.key)
            if change.kind in _UTILIZATION_KINDS:
                self._utilization = None
            if change.kind is Kind.RESOURCE_SLICE:
                self._note_driver(change.key.name)
            elif change.kind is Kind.NODE and change.key.name not in self._watch.snapshot.nodes:
                self._published.pop(change.key.name, None)

    def _note_driver(self, slice_name: str) -> None:
        item = self._watch.snapshot.slices.get(slice_name)
        if item is None or not item.node_name or not item.devices:
            return
        known = self._published.setdefault(item.node_name, {})
        slices = self._watch.snapshot.slices
        before = {name for name in known.get(item.pool_id.driver, ()) if name in slices}
        known[item.pool_id.driver] = before | {slice_name}
        if len(self._published) > len(self._watch.snapshot.nodes) + SPARE:
            nodes = self._watch.snapshot.nodes
            self._published = {name: drivers for name, drivers in self._published.items() if name in nodes}


class TimeSlice:
    """Gives the event loop a turn when its time is over."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def yield_when_over(self) -> None:
        """Wait a turn if the time is over."""
        if time.perf_counter() - self._began > _TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


def _utilization_json(figures: NodeUtilization) -> dict[str, Any]:
    """Both figures, from 0 to 1. An unknown figure is null, with the reason; without devices it is null alone."""
    pools = {pool.id: pool for pool in figures.weighted.pools}
    seen = {} if figures.autoscaler.problem else figures.autoscaler.pools
    return {
        "autoscaler": {"value": _number(figures.autoscaler.highest), "unknown_because": figures.autoscaler.problem},
        "weighted": {
            "value": _number(figures.weighted.figure),
            "unknown_because": "; ".join(figures.weighted.problems),
        },
        "pools": [
            {
                "driver": pool_id.driver,
                "pool": pool_id.pool,
                "autoscaler": _number(seen.get(pool_id)),
                "weighted": _number(pools[pool_id].figure) if pool_id in pools else None,
                "unknown_because": pools[pool_id].problem if pool_id in pools else "",
            }
            for pool_id in sorted({*pools, *seen})
        ],
    }


def _number(figure: Fraction | None) -> float | None:
    return float(figure) if figure is not None else None
