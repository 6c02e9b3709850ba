"""Resource pools as one node sees them: which slices count, whether the pool is complete and valid, in which order.

A pool is made of ResourceSlices of one driver. Slices of an older generation are dropped. A pool is *incomplete*
while fewer (or more) slices are there than each of them announces, and *invalid* when its slices contradict each
other; devices are taken from neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from dra_spawner.dra.features import Features
from dra_spawner.dra.model.devices import CounterName, Device, PoolId, ResourceSlice
from dra_spawner.dra.model.node_selector import NodeSelector
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.scheduler_rules import SchedulerRules


class PoolState(StrEnum):
    """Whether devices may be taken from a pool."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A device that a node may use, with what it was published in."""

    device: Device
    slice: ResourceSlice
    pool: Pool


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A resource pool as one node sees it."""

    id: PoolId
    state: PoolState
    problem: str = ""
    """Why the pool is invalid."""
    slices: tuple[ResourceSlice, ...] = ()
    """Slices with devices for this node, by name."""
    other_slices: tuple[ResourceSlice, ...] = ()
    """Slices of the pool that are for other nodes; their devices draw on the same counters."""
    counters: Mapping[CounterName, int] = field(default_factory=dict)
    """The pool's shared counters in nano-units."""
    device_names: tuple[str, ...] = ()
    """Names of the devices of all these slices, those for this node first."""

    @property
    def has_binding_conditions(self) -> bool:
        """Whether any device for this node has binding conditions: such pools come last."""
        return any(part.devices[place].binding_conditions for part in self.slices for place, _ in part.device_rules)

    def candidates(self) -> list[Candidate]:
        """The devices in the order in which they are tried."""
        return [Candidate(device, part, self) for part in self.slices for device in part.devices]


class SliceSource(Protocol):
    """What pools are gathered from."""

    def for_node(self, node_name: str, rules: SchedulerRules) -> Sequence[ResourceSlice]:
        """Slices that may concern the node: those of this node first, then those that may concern other nodes, too."""
        ...

    def of_pool(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        """Slices of one pool, of all generations and for all nodes."""
        ...


class SliceIndex:
    """All ResourceSlices of the cluster, arranged so that one node's are found at once."""

    __slots__ = ("_by_node", "_by_pool", "_unbound", "_unbound_or_counters")

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._by_node: dict[str, list[ResourceSlice]] = {}
        self._unbound: list[ResourceSlice] = []
        self._unbound_or_counters: list[ResourceSlice] = []
        self._by_pool: dict[PoolId, list[ResourceSlice]] = {}
        for item in slices:
            self._by_pool.setdefault(item.pool_id, []).append(item)
            if item.node_name:
                self._by_node.setdefault(item.node_name, []).append(item)
            else:
                self._unbound.append(item)
            if item.shared_counters or not item.node_name:
                self._unbound_or_counters.append(item)

    def for_node(self, node_name: str, rules: SchedulerRules) -> list[ResourceSlice]:
        """Slices that may concern the node: those of this node first, then those that may concern other nodes, too."""
        of_node = self._by_node.get(node_name, [])
        if rules.quirks.counter_slices_relevant_everywhere:
            return [item for item in of_node if not item.shared_counters] + self._unbound_or_counters
        return of_node + self._unbound

    def of_pool(self, pool_id: PoolId) -> Sequence[ResourceSlice]:
        """Slices of one pool, of all generations and for all nodes."""
        return self._by_pool.get(pool_id, ())


def gather_pools(index: SliceSource, node: Node, rules: SchedulerRules) -> list[Pool]:
    """Pools with devices or counters for a node, in the order in which devices are tried.

    Raises
    ------
    NodeSelectorError
        When the node selector of a slice or device that had to be looked at is malformed.
    """
    plain: list[Pool] = []
    with_binding_conditions: list[Pool] = []
    for pool_id, slices in _relevant_slices(index, node, rules).items():
        pool = _make_pool(pool_id, slices, index.of_pool(pool_id), rules)
        if pool is not None:
            (with_binding_conditions if pool.has_binding_conditions else plain).append(pool)
    plain.sort(key=pool_order)
    with_binding_conditions.sort(key=pool_order)
    return plain + with_binding_conditions


def local_pool(slices: Sequence[ResourceSlice], rules: SchedulerRules) -> Pool | None:
    """What `gather_pools` makes of a pool for the one node that all its slices name; None if it passes it over.

    Parameters
    ----------
    slices
        All slices of the pool, those without counters first.
    """
    relevant: Sequence[ResourceSlice] = slices
    if not rules.features.partitionable_devices:
        relevant = [item for item in slices if _is_understood(item, rules.features)]
    if len(relevant) > 1:
        newest = max([item.generation for item in relevant])
        relevant = [item for item in relevant if item.generation == newest]
    return _make_pool(slices[0].pool_id, relevant, slices, rules) if relevant else None


def selects_node(node: Node, node_name: str | None, all_nodes: bool, selector: NodeSelector | None) -> bool:
    """Whether a slice's or device's choice of nodes includes this one; the first of the three that is set decides."""
    if node_name:
        return node.name == node_name
    if all_nodes:
        return True
    return selector is not None and selector.matches(node.name, node.labels)


def _relevant_slices(index: SliceSource, node: Node, rules: SchedulerRules) -> dict[PoolId, list[ResourceSlice]]:
    """Slices that concern the node, of the highest generation among them."""
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for item in index.for_node(node.name, rules):
        if not _is_understood(item, rules.features):
            continue
        if (item.shared_counters and rules.quirks.counter_slices_relevant_everywhere) or _is_relevant(item, node):
            _add_slice(pools, item)
    return pools


def _is_understood(item: ResourceSlice, features: Features) -> bool:
    """Whether the scheduler considers the slice."""
    return features.partitionable_devices or (item.per_device_node_selection is None and not item.shared_counters)


def _is_relevant(item: ResourceSlice, node: Node) -> bool:
    if item.node_name or item.all_nodes or item.node_selector is not None:
        return selects_node(node, item.node_name, item.all_nodes, item.node_selector)
    return bool(item.per_device_node_selection) and any(
        selects_node(node, device.node_name, device.all_nodes, device.node_selector) for device in item.devices
    )


def _add_slice(pools: dict[PoolId, list[ResourceSlice]], item: ResourceSlice) -> None:
    known = pools.get(item.pool_id)
    if known is None or item.generation > known[0].generation:
        pools[item.pool_id] = [item]
    elif item.generation == known[0].generation:
        known.append(item)


def _make_pool(
    pool_id: PoolId, relevant: Sequence[ResourceSlice], everywhere: Sequence[ResourceSlice], rules: SchedulerRules
) -> Pool | None:
    """The pool made of these relevant slices; None when a newer generation exists on other nodes.

    Whether all slices are there is first asked of the relevant ones alone: a pool of an old generation that looks
    complete from here is used.
    """
    generation, expected = relevant[0].generation, relevant[0].resource_slice_count
    others: list[ResourceSlice] = []
    is_complete = len(relevant) == expected
    if not is_complete and not rules.quirks.incomplete_pools_used:
        if any(item.generation > generation for item in everywhere):
            return None
        current = [item for item in everywhere if item.generation == generation]
        if len(current) != expected:
            return Pool(pool_id, PoolState.INCOMPLETE)
        names = {item.name for item in relevant}
        others = [item for item in current if item.name not in names]
    if len(relevant) > 1:
        relevant = sorted(relevant, key=lambda item: item.name.encode())
    pool = _build_pool(pool_id, relevant, others, rules.features)
    if rules.quirks.incomplete_pools_used and not is_complete and pool.state is PoolState.USABLE:
        return replace(pool, state=PoolState.INCOMPLETE)
    return pool


def _build_pool(
    pool_id: PoolId, relevant: Sequence[ResourceSlice], others: list[ResourceSlice], features: Features
) -> Pool:
    if features.partitionable_devices:
        slices = tuple([item for item in relevant if not item.shared_counters])
    else:
        slices = tuple(relevant)
    names = _device_names(slices)
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        return Pool(pool_id, PoolState.INVALID, f"device {twice} is published twice")
    if not features.partitionable_devices:
        return Pool(pool_id, PoolState.USABLE, slices=slices, device_names=names)

    counters: dict[CounterName, int] = {}
    set_names: set[str] = set()
    # The node's devices need the pool's counters, wherever those are said to be.
    for item in (*relevant, *others):
        for set_name, values in item.shared_counters:
            if set_name in set_names:
                return Pool(pool_id, PoolState.INVALID, f"counter set {set_name} is defined twice")
            set_names.add(set_name)
            counters.update((CounterName(set_name, name), value) for name, value in values.items())
    problem = _unknown_counter((*relevant, *others), set_names, counters)
    if problem:
        return Pool(pool_id, PoolState.INVALID, problem)
    other_slices = tuple([item for item in others if not item.shared_counters])
    return Pool(pool_id, PoolState.USABLE, "", slices, other_slices, counters, names + _device_names(other_slices))


def _device_names(slices: Sequence[ResourceSlice]) -> tuple[str, ...]:
    if len(slices) == 1:
        return slices[0].device_names
    return tuple([name for item in slices for name in item.device_names])


def _unknown_counter(slices: Iterable[ResourceSlice], set_names: set[str], counters: Mapping[CounterName, int]) -> str:
    for item in slices:
        for place, _ in item.device_rules:
            device = item.devices[place]
            for set_name in device.counter_sets:
                if set_name not in set_names:
                    return f"device {device.id.device} consumes the unknown counter set {set_name}"
            for name, _ in device.consumes_counters:
                if name not in counters:
                    return f"device {device.id.device} consumes the unknown counter {name}"
    return ""


def pool_order(pool: Pool) -> tuple[bytes, bytes]:
    """Pools are tried in this order, those with binding conditions after all others."""
    return pool.id.driver.encode(), pool.id.pool.encode()
