"""Device utilization of a node as cluster-autoscaler 1.36 computes it to remove nodes.

A device with a single small share counts as used. The fullest pool gives the node's figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dra_spawner.dra.model.objects import CounterName, Device, DeviceId, PoolId, ResourceClaim, ResourceSlice

__all__ = ["AutoscalerUtilization", "autoscaler_utilization"]


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
    """Utilization of one node.

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
