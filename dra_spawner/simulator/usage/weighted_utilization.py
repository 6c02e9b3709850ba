"""Utilization of a node's devices by real use of capacity and counters, and by weights.

It counts *units*: each device that draws on no counters, and each counter set that devices of the node draw on (the
hardware behind partitions). Of a unit

- the *use* is 1 for a device that is allocated whole; for shares the fullest capacity, consumed over total; for a
  counter set the fullest counter, of which an allocated device takes what it draws times its own use (counters that
  differ by a number at the end of their names, such as ``memory-slice-0``, are one);
- the *size* compares it with others of its pool that have capacities (or counters) of the same names: their mean
  is 1;
- the *weight* is its size times the weight that the caller gives its device class.

A pool's figure is the weighted mean of its units' use, and the node's figure that of all units: a small pool counts
little. Admin access uses nothing. A device that may be shared and has no capacity is never full, and not a unit.

The node's figure is unknown while one of its pools is incomplete or invalid, while an allocated device is not published
any more, and while a share consumes nothing or a negative amount: the device is fuller than it seems, as kube-scheduler
counts in 64 bits.

A device that its driver withdraws while a pod has it is a unit in full use. A device that is not offered, as it is the
same hardware as others (`device_doubts`), is no unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Device, Node, PoolId, ResourceSlice
from dra_spawner.dra.model.pools import Pool, PoolState, SliceIndex, gather_pools
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.usage.device_doubts import NO_DOUBTS, DeviceDoubts

_ZERO: Final = Fraction(0)
_ONE: Final = Fraction(1)

WeightOf = Callable[[Device], Fraction]


@dataclass(frozen=True, slots=True)
class PoolUtilization:
    """Utilization of one pool."""

    id: PoolId
    used: Fraction = _ZERO
    """Weight of its units times their use."""
    weight: Fraction = _ZERO
    """Weight of all its units."""
    problem: str = ""
    """Why the figure is unknown; empty if it is known."""

    @property
    def figure(self) -> Fraction | None:
        """Utilization from 0 to 1; None if it is not known, or nothing in the pool has a weight."""
        return self.used / self.weight if self.weight and not self.problem else None


@dataclass(frozen=True, slots=True)
class WeightedUtilization:
    """Utilization of all pools with devices of one node's own."""

    pools: tuple[PoolUtilization, ...] = ()
    problems: tuple[str, ...] = ()
    """Why the node's figure is unknown; such a node is never drained."""

    @property
    def is_known(self) -> bool:
        return not self.problems

    @property
    def figure(self) -> Fraction | None:
        """Utilization from 0 to 1; None if it is not known, or the node has no devices that count."""
        weight = sum((pool.weight for pool in self.pools), _ZERO)
        return sum((pool.used for pool in self.pools), _ZERO) / weight if weight and self.is_known else None


def weighted_utilization(
    node: Node,
    pools: Mapping[PoolId, Sequence[ResourceSlice]],
    allocated: AllocatedState,
    rules: SchedulerRules,
    weight_of: WeightOf,
    doubts: DeviceDoubts = NO_DOUBTS,
) -> WeightedUtilization:
    """Utilization of one node.

    Parameters
    ----------
    pools
        Pools with devices of the node's own, with all their slices of all generations and for all nodes.
    allocated
        Devices of all claims.
    weight_of
        Weight of a device; not negative.
    doubts
        Doubts about the node's devices.
    """
    unknown = doubts.pools
    found = tuple(
        PoolUtilization(pool_id, problem=unknown[pool_id])
        if pool_id in unknown
        else _pool(node, pool_id, pools.get(pool_id, ()), allocated, rules, weight_of, doubts)
        for pool_id in sorted({*pools, *unknown, *doubts.withdrawn})
    )
    return WeightedUtilization(found, tuple(f"pool {pool.id}: {pool.problem}" for pool in found if pool.problem))


def _pool(
    node: Node,
    pool_id: PoolId,
    slices: Sequence[ResourceSlice],
    allocated: AllocatedState,
    rules: SchedulerRules,
    weight_of: WeightOf,
    doubts: DeviceDoubts,
) -> PoolUtilization:
    withdrawn = doubts.withdrawn.get(pool_id, 0)
    if not slices:
        return PoolUtilization(pool_id, Fraction(withdrawn), Fraction(withdrawn))
    pool = _complete_pool(node, slices, rules)
    if isinstance(pool, str):
        return PoolUtilization(pool_id, problem=pool)
    devices = [
        candidate.device
        for candidate in pool.candidates()
        if node.name in (candidate.slice.node_name, candidate.device.node_name)
        and candidate.device.id not in doubts.not_offered
    ]
    for device in devices:
        if allocated.is_miscounted(device.id):
            return PoolUtilization(pool_id, problem=f"a share of device {device.id.device} consumes nothing, or less")
    units = [*_device_units(devices, allocated, weight_of), *_counter_units(pool, devices, allocated, weight_of)]
    sizes = _sizes(units)
    weights = [unit.weight * size for unit, size in zip(units, sizes, strict=True)]
    used = sum((weight * unit.use for unit, weight in zip(units, weights, strict=True)), _ZERO)
    # Nothing is known of a withdrawn device but that it was like the others.
    others = withdrawn * max((unit.weight for unit in units), default=_ONE)
    return PoolUtilization(pool_id, used + others, sum(weights, _ZERO) + others)


def _complete_pool(node: Node, slices: Sequence[ResourceSlice], rules: SchedulerRules) -> Pool | str:
    """The pool as the node sees it, or why it cannot be used."""
    newest = max(item.generation for item in slices)
    current = [item for item in slices if item.generation == newest]
    if any(item.resource_slice_count != len(current) for item in current):
        return f"incomplete, generation {newest} has {len(current)} of {current[0].resource_slice_count} slices"
    try:
        pools = gather_pools(SliceIndex(current), node, rules)
    except NodeSelectorError as error:
        return str(error)
    if not pools:
        return f"the node has slices of an older generation than {newest} only"
    pool = pools[0]
    return pool if pool.state is PoolState.USABLE else pool.problem or "incomplete"


@dataclass(frozen=True, slots=True)
class _Unit:
    use: Fraction
    weight: Fraction
    amounts: Mapping[str, int]
    """Capacities or counters, in nano-units."""


def _device_units(devices: Iterable[Device], allocated: AllocatedState, weight_of: WeightOf) -> list[_Unit]:
    units = []
    for device in devices:
        capacity = {name: item.value.nano for name, item in device.description.capacity.items()}
        is_boundless = device.is_shared and not any(capacity.values()) and not allocated.is_taken(device.id)
        if not device.counter_sets and not is_boundless:
            units.append(_Unit(_use(device, allocated), weight_of(device), capacity))
    return units


def _counter_units(
    pool: Pool, devices: Sequence[Device], allocated: AllocatedState, weight_of: WeightOf
) -> list[_Unit]:
    """Units of the counter sets that these devices draw on; other nodes' devices may draw on them, too."""
    taken = _taken(pool, allocated)
    weights: dict[str, Fraction] = {}
    for device in devices:
        for set_name in device.counter_sets:
            weights[set_name] = max(weights.get(set_name, _ZERO), weight_of(device))
    units = []
    for set_name, weight in weights.items():
        amounts = _by_kind({name: each for name, each in pool.counters.items() if name.counter_set == set_name})
        of_set = _by_kind({name: each for name, each in taken.items() if name[0] == set_name})
        uses = [of_set.get(kind, _ZERO) / total for kind, total in amounts.items() if total > 0]
        units.append(_Unit(_bounded(max(uses, default=_ZERO)), weight, amounts))
    return units


NumberT = TypeVar("NumberT", int, Fraction)


def _by_kind(of_set: Mapping[tuple[str, str], NumberT]) -> dict[str, NumberT]:
    """Amounts of one set's counters, those that differ by a number at the end summed up.

    NVIDIA's driver has a counter of 1 for each memory slice of a GPU: they say where a partition lies, and a partition
    that takes one of eight has an eighth of the memory.
    """
    found: dict[str, NumberT] = {}
    for (_, name), amount in of_set.items():
        kind = name.rstrip("0123456789")
        found[kind] = found[kind] + amount if kind in found else amount
    return found


def _taken(pool: Pool, allocated: AllocatedState) -> dict[tuple[str, str], Fraction]:
    """The amount of each counter that allocated devices take."""
    taken: dict[tuple[str, str], Fraction] = {}
    for part in (*pool.slices, *pool.other_slices):
        for device in part.devices:
            if device.consumes_counters and allocated.is_allocated(device.id):
                use = _use(device, allocated)
                for counter, amount in device.consumes_counters:
                    taken[counter] = taken.get(counter, _ZERO) + amount * use
    return taken


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """How far one device is in use."""

    device: Device
    use: Fraction
    """The part that is in use, from 0 to 1."""
    is_blocked: bool = False
    """Whether it is free, but too little is left of counters that it draws on, or it is not offered: other devices are
    the same hardware."""
    counters: tuple[tuple[str, str, Fraction], ...] = ()
    """Counters that it draws on: set, name without the number at its end, and the part that it takes now."""

    @property
    def not_available(self) -> Fraction:
        """The part that no other server can get, from 0 to 1."""
        return _ONE if self.is_blocked else self.use


def device_uses(
    node: Node,
    slices: Sequence[ResourceSlice],
    allocated: AllocatedState,
    rules: SchedulerRules,
    doubts: DeviceDoubts = NO_DOUBTS,
) -> tuple[DeviceUse, ...]:
    """How far each of a node's own devices in a pool is in use; empty while the pool is incomplete or invalid.

    Parameters
    ----------
    slices
        All slices of the pool.
    """
    pool = _complete_pool(node, slices, rules)
    if isinstance(pool, str):
        return ()
    taken = _taken(pool, allocated)
    sets = {name.counter_set for name in pool.counters}
    totals = {
        each: _by_kind({name: total for name, total in pool.counters.items() if name.counter_set == each})
        for each in sets
    }
    uses = []
    for candidate in pool.candidates():
        device = candidate.device
        if node.name not in (candidate.slice.node_name, device.node_name):
            continue
        is_blocked = not allocated.is_allocated(device.id) and (
            device.id in doubts.not_offered
            or any(
                taken.get(counter, _ZERO) + amount > pool.counters.get(counter, 0)
                for counter, amount in device.consumes_counters
            )
        )
        use = _use(device, allocated)
        counters = tuple(
            (each, kind, amount * use / total)
            for each in sorted({counter.counter_set for counter, _ in device.consumes_counters})
            for kind, amount in _by_kind(
                {counter: amount for counter, amount in device.consumes_counters if counter.counter_set == each}
            ).items()
            if (total := totals.get(each, {}).get(kind, 0)) > 0
        )
        uses.append(DeviceUse(device, use, is_blocked, counters))
    return tuple(uses)


def used_units(uses: Iterable[DeviceUse]) -> tuple[Fraction, int]:
    """The use of the hardware behind devices.

    A unit is a counter set that the devices draw on, such as the GPU behind partitions, or a device that draws on none.

    Returns
    -------
    Fraction, int
        The sum of the used parts of the units, each from 0 to 1 and taken by these devices alone; the number of units.
    """
    whole, number = _ZERO, 0
    taken: dict[tuple[str, str, str], dict[str, Fraction]] = {}
    for each in uses:
        for set_name, counter, part in each.counters:
            of_set = taken.setdefault((each.device.id.driver, each.device.id.pool, set_name), {})
            of_set[counter] = of_set.get(counter, _ZERO) + part
        if not each.counters and not each.is_blocked:
            whole, number = whole + each.use, number + 1
    fullest = (_bounded(max(of_set.values())) for of_set in taken.values())
    return whole + sum(fullest, _ZERO), number + len(taken)


def _use(device: Device, allocated: AllocatedState) -> Fraction:
    """The part of a device that is in use, from 0 to 1."""
    if allocated.is_taken(device.id) or allocated.is_miscounted(device.id):
        return _ONE
    if not allocated.has_shares(device.id):
        return _ZERO
    consumed = allocated.consumed_capacity(device.id) or {}
    totals = {name: item.value.nano for name, item in device.description.capacity.items() if item.value.nano > 0}
    if not totals:
        return _ONE
    return _bounded(max(Fraction(consumed.get(name, 0), total) for name, total in totals.items()))


def _sizes(units: Sequence[_Unit]) -> list[Fraction]:
    """Size of each unit; the mean of the units with amounts of the same names is 1."""
    alike: dict[frozenset[str], list[_Unit]] = {}
    for unit in units:
        alike.setdefault(frozenset(unit.amounts), []).append(unit)
    sizes = []
    for unit in units:
        others = alike[frozenset(unit.amounts)]
        totals = {name: sum(other.amounts[name] for other in others) for name in unit.amounts}
        ratios = [Fraction(unit.amounts[name] * len(others), total) for name, total in totals.items() if total > 0]
        sizes.append(sum(ratios, _ZERO) / len(ratios) if ratios else _ONE)
    return sizes


def _bounded(use: Fraction) -> Fraction:
    return min(max(use, _ZERO), _ONE)
