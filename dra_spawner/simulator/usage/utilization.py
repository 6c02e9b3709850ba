"""Utilization of nodes, twice: as cluster-autoscaler computes it to remove nodes, and by real use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.model.objects import (
    CounterName,
    Device,
    DeviceClass,
    DeviceDescription,
    DeviceId,
    PoolId,
    ResourceClaim,
    ResourceSlice,
)
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.scheduler.node_fit import named_nodes
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.snapshot_errors import find
from dra_spawner.simulator.usage.device_doubts import DeviceDoubts, Held, find_doubts
from dra_spawner.simulator.usage.weighted_utilization import (
    DeviceUse,
    WeightedUtilization,
    device_uses,
    weighted_utilization,
)

_ONE: Final = Fraction(1)


@dataclass(frozen=True, slots=True)
class ClassWeights:
    """Weights of devices by device class; not negative.

    A device that several of these classes select has the highest of their weights. A class whose selectors fail on a
    device does not select it.
    """

    by_class: Mapping[str, Fraction | int] = field(default_factory=dict)
    other: Fraction | int = _ONE
    """Weight of devices that none of the classes selects."""


@dataclass(frozen=True, slots=True)
class NodeUtilization:
    """Both figures of one node."""

    node: str
    autoscaler: AutoscalerUtilization
    weighted: WeightedUtilization


@dataclass(slots=True)
class _HeldDevices:
    """Allocated devices, each with its claim."""

    of_pool: dict[PoolId, list[Held]] = field(default_factory=dict)
    of_node: dict[str, list[Held]] = field(default_factory=dict)
    """Devices of pools that nobody publishes, by the node that the allocation names."""
    of_claim: dict[ObjectKey, list[Held]] = field(default_factory=dict)
    """Devices of claims whose allocation names no node: they are where their pods are."""


class Utilization:
    """Utilization of the nodes of a snapshot.

    Parameters
    ----------
    snapshot
        Must not change while this object is in use.
    weights
        Weights of devices; equal by default.
    """

    def __init__(self, snapshot: Snapshot, weights: ClassWeights | None = None) -> None:
        self._snapshot = snapshot
        self._weights = weights or ClassWeights()
        self._selectors = SelectorCache(list_attributes=snapshot.rules.selectors_see_lists)
        self._known_weights: dict[DeviceDescription, Fraction] = {}
        self._of_pool: dict[PoolId, list[ResourceSlice]] = {}
        self._of_node: dict[str, list[ResourceSlice]] = {}
        self._pools_of_node: dict[str, set[PoolId]] = {}
        self._held: tuple[int, _HeldDevices] = (-1, _HeldDevices())
        for item in snapshot.state.devices.in_order()[0]:
            self._of_pool.setdefault(item.pool_id, []).append(item)
            if item.node_name:
                self._of_node.setdefault(item.node_name, []).append(item)
            for name in _nodes_of(item):
                self._pools_of_node.setdefault(name, set()).add(item.pool_id)

    def of(self, node_name: str) -> NodeUtilization:
        """Both figures of a node.

        Raises
        ------
        SnapshotError
            If the node does not exist.
        """
        state = find(self._snapshot.nodes, node_name, "node")
        weighted = weighted_utilization(
            state.node.identity,
            {pool_id: self._of_pool[pool_id] for pool_id in self._pools_of_node.get(node_name, ())},
            self._snapshot.state.devices.allocated,
            self._snapshot.rules,
            self._weight,
            self.doubts_of(node_name),
        )
        unreadable = tuple(self._unreadable(node_name))
        if unreadable:
            weighted = WeightedUtilization(weighted.pools, (*weighted.problems, *unreadable))
        autoscaler = autoscaler_utilization(self._of_node.get(node_name, ()), self._claims(node_name))
        for broken in self._snapshot.broken:
            if broken.kind is Kind.RESOURCE_SLICE and broken.node_name == node_name:
                autoscaler = AutoscalerUtilization(problem=str(broken))
        return NodeUtilization(node_name, autoscaler, weighted)

    def devices_of(self, node_name: str) -> tuple[DeviceUse, ...]:
        """How far each device of a node is in use, shares by capacity; without devices of incomplete pools.

        Raises
        ------
        SnapshotError
            If the node does not exist.
        """
        node = find(self._snapshot.nodes, node_name, "node").node.identity
        allocated, doubts = self._snapshot.state.devices.allocated, self.doubts_of(node_name)
        return tuple(
            use
            for pool_id in sorted(self._pools_of_node.get(node_name, ()))
            for use in device_uses(node, self._of_pool[pool_id], allocated, self._snapshot.rules, doubts)
        )

    def doubts_of(self, node_name: str) -> DeviceDoubts:
        """Doubts about the devices of a node."""
        held, pools = self._present_held(), self._pools_of_node.get(node_name, ())
        of_pools = [each for pool_id in pools for each in held.of_pool.get(pool_id, ())]
        keys = {
            ObjectKey(pod.namespace, reference.claim or "")
            for pod in self._snapshot.nodes[node_name].pods
            for reference in (pod.claims if held.of_claim else ())
        }
        of_pods = [each for key in sorted(keys) for each in held.of_claim.get(key, ())]
        return find_doubts(
            node_name,
            {pool_id: self._of_pool[pool_id] for pool_id in pools},
            (*of_pools, *held.of_node.get(node_name, ()), *of_pods),
        )

    def _present_held(self) -> _HeldDevices:
        """Devices of all claims, collected again only after a claim has changed."""
        claims = self._snapshot.state.claims
        if self._held[0] != claims.changes:
            found = _HeldDevices()
            for key, tracked in claims.items():
                for part in tracked.claim.status.devices or ():
                    pool_id = PoolId(part.id.driver, part.id.pool)
                    if pool_id in self._of_pool:
                        found.of_pool.setdefault(pool_id, []).append((str(key), part))
                        continue
                    selector = tracked.claim.status.node_selector
                    named = named_nodes(selector) if selector is not None else None
                    for node in named or ():
                        found.of_node.setdefault(node, []).append((str(key), part))
                    if not named:
                        found.of_claim.setdefault(key, []).append((str(key), part))
            self._held = claims.changes, found
        return self._held[1]

    def classes_of(self, device: Device) -> tuple[str, ...]:
        """Names of the device classes that select a device; a class whose selectors fail on it does not select it."""
        return tuple(
            sorted(name for name, item in self._snapshot.classes.items() if self._selects(item, device.description))
        )

    def _claims(self, node_name: str) -> Iterator[ResourceClaim | str]:
        for pod in self._snapshot.nodes[node_name].pods:
            for reference in pod.claims:
                if reference.is_needed:
                    tracked = self._snapshot.claims.get(ObjectKey(pod.namespace, reference.claim or ""))
                    yield tracked.claim if tracked is not None else f"{pod.namespace}/{reference.claim}"

    def _unreadable(self, node_name: str) -> Iterator[str]:
        """Problems of invalid claims and slices, as their devices on the node are unknown."""
        for broken in self._snapshot.broken:
            if broken.kind is Kind.RESOURCE_CLAIM and broken.key not in self._snapshot.claims:
                pods = self._snapshot.nodes[node_name].pods
                if any(
                    broken.key == ObjectKey(pod.namespace, reference.claim or "")
                    for pod in pods
                    for reference in pod.claims
                ):
                    yield str(broken)
            elif broken.kind is Kind.RESOURCE_SLICE and broken.pool_id is None and broken.node_name == node_name:
                yield str(broken)

    def _weight(self, device: Device) -> Fraction:
        known = self._known_weights.get(device.description)
        if known is None:
            weights = [
                Fraction(weight)
                for name, weight in self._weights.by_class.items()
                if (item := self._snapshot.classes.get(name)) is not None and self._selects(item, device.description)
            ]
            known = self._known_weights[device.description] = max(weights, default=Fraction(self._weights.other))
        return known

    def _selects(self, item: DeviceClass, description: DeviceDescription) -> bool:
        expressions = tuple(expression or "" for expression in item.selectors)
        return self._selectors.filter(expressions).verdict(description) is True


def _nodes_of(item: ResourceSlice) -> set[str]:
    """Nodes to which devices or counters of a slice belong."""
    names = {device.node_name for device in item.devices if device.node_name}
    return {item.node_name} if item.node_name else {name for name in names if name}


@dataclass(frozen=True, slots=True)
class AutoscalerUtilization:
    """Utilization of a node by its own pools.

    Attributes
    ----------
    pools
        From 0 to 1 (more where counters are overdrawn), by pool.
    problem
        Why the figure is unknown, so that cluster-autoscaler keeps the node; empty if it is known.
    """

    pools: Mapping[PoolId, Fraction] = field(default_factory=dict)
    problem: str = ""

    @property
    def highest(self) -> Fraction | None:
        """The node's figure; None without one, or for a node that publishes no devices."""
        return None if self.problem else max(self.pools.values(), default=None)


def autoscaler_utilization(
    slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim | str]
) -> AutoscalerUtilization:
    """Utilization of one node as cluster-autoscaler 1.36 computes it to remove nodes.

    A device with a single small share counts as used. The fullest pool gives the node's figure.

    Parameters
    ----------
    slices
        Slices whose ``nodeName`` is the node; only these count.
    claims
        Claims of the pods on the node; for a claim that does not exist, its name.
    """
    used: set[DeviceId] = set()
    for claim in claims:
        if isinstance(claim, str):
            return AutoscalerUtilization(problem=f"claim {claim} not found")
        if claim.status.devices is None:
            return AutoscalerUtilization(problem=f"claim {claim} not allocated")
        used.update(result.id for result in claim.status.devices if not result.admin_access)
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for item in slices:
        by_pool.setdefault(item.pool_id, []).append(item)
    pools: dict[PoolId, Fraction] = {}
    for pool_id in sorted(by_pool):
        newest = max(item.generation for item in by_pool[pool_id])
        current = [item for item in by_pool[pool_id] if item.generation == newest]
        if len(current) != current[0].resource_slice_count:
            return AutoscalerUtilization(
                problem=f"pool {pool_id}: generation {newest} has {len(current)} of "
                f"{current[0].resource_slice_count} slices"
            )
        pools[pool_id] = _pool(current, used)
    return AutoscalerUtilization(pools)


def _pool(slices: Sequence[ResourceSlice], used: set[DeviceId]) -> Fraction:
    devices = [device for item in slices for device in item.devices]
    if any(item.shared_counters for item in slices):
        return _counters(slices, devices, used)
    return Fraction(sum(device.id in used for device in devices), len(devices)) if devices else Fraction(0)


def _counters(slices: Sequence[ResourceSlice], devices: Sequence[Device], used: set[DeviceId]) -> Fraction:
    """The fullest counter of each counter set, averaged over the sets from which devices draw."""
    totals = {
        CounterName(set_name, name): total
        for item in slices
        for set_name, counters in item.shared_counters
        for name, total in counters.items()
    }
    taken: dict[CounterName, int] = {}
    for device in devices:
        if device.id in used:
            for counter, amount in device.consumes_counters:
                taken[counter] = taken.get(counter, 0) + amount
    fullest: dict[str, Fraction] = {name: Fraction(0) for device in devices for name in device.counter_sets}
    if not fullest:
        return Fraction(0)
    for counter, amount in taken.items():
        total = totals.get(counter, 0)
        if total:
            fullest[counter.counter_set] = max(fullest[counter.counter_set], Fraction(amount, total))
    return sum(fullest.values(), Fraction(0)) / len(fullest)
