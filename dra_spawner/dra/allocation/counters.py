"""Shared counters of partitionable devices (KEP-4815): what is left and what is being taken."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.model.devices import CounterName, Device
from dra_spawner.dra.model.pools import Pool
from dra_spawner.dra.scheduler_rules import SchedulerRules


@dataclass(frozen=True, slots=True)
class CounterShortage:
    """A counter that does not suffice, amounts in nano-units."""

    counter: CounterName
    left: int
    needed: int


class CounterCache:
    """What the allocated devices leave of each pool's counters; filled when a pool is first asked for.

    Up to 1.36 kube-scheduler looks pools up by name alone, without driver, for as long as one attempt to schedule a pod
    takes: of two pools with one name, the first that is touched answers for both.
    """

    __slots__ = ("_allocated", "_by_name", "_left")

    def __init__(self, allocated: AllocatedState, rules: SchedulerRules) -> None:
        self._allocated = allocated
        self._by_name = rules.quirks.counters_by_pool_name
        self._left: dict[Hashable, dict[CounterName, int]] = {}

    def key(self, pool: Pool) -> Hashable:
        """What identifies the pool here."""
        return pool.id.pool if self._by_name else pool.id

    def left(self, pool: Pool) -> dict[CounterName, int]:
        """What is left of the pool's counters, in nano-units; may be negative."""
        key = self.key(pool)
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = self._compute(pool)
        return left

    def _compute(self, pool: Pool) -> dict[CounterName, int]:
        left = dict(pool.counters)
        for part in (*pool.slices, *pool.other_slices):
            for device in part.devices:
                if device.consumes_counters and self._allocated.is_allocated(device.id):
                    for name, amount in device.consumes_counters:
                        left[name] -= amount
        return left


class CounterUse:
    """Counters taken by the devices that are being allocated."""

    __slots__ = ("_cache", "_used")

    def __init__(self, cache: CounterCache) -> None:
        self._cache = cache
        self._used: dict[Hashable, dict[CounterName, int]] = {}

    def reserve(self, pool: Pool, device: Device) -> bool:
        """Take the device's counters; False, and nothing taken, unless *every* counter of the pool suffices then.

        So one exhausted counter stops all devices of the pool that consume any counter.
        """
        used = self._used.setdefault(self._cache.key(pool), {})
        for name, amount in device.consumes_counters:
            used[name] = used.get(name, 0) + amount
        for name, left in self._cache.left(pool).items():
            if left < used.get(name, 0):
                self.release(pool, device)
                return False
        return True

    def release(self, pool: Pool, device: Device) -> None:
        """Give the device's counters back."""
        used = self._used[self._cache.key(pool)]
        for name, amount in device.consumes_counters:
            used[name] -= amount

    def left(self, pool: Pool) -> dict[CounterName, int]:
        """What is left of the pool's counters now, in nano-units."""
        used = self._used.get(self._cache.key(pool), {})
        return {name: left - used.get(name, 0) for name, left in self._cache.left(pool).items()}

    def shortage(self, pool: Pool, device: Device) -> CounterShortage | None:
        """The counter that keeps the device from being allocated; None when nothing does."""
        used = self._used.get(self._cache.key(pool), {})
        wanted: dict[CounterName, int] = {}
        for name, amount in device.consumes_counters:
            wanted[name] = wanted.get(name, 0) + amount
        shortages = [
            CounterShortage(name, left - used.get(name, 0), wanted.get(name, 0))
            for name, left in self._cache.left(pool).items()
            if left < used.get(name, 0) + wanted.get(name, 0)
        ]
        return max(shortages, key=lambda item: item.needed > 0, default=None)
