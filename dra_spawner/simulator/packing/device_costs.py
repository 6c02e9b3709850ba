"""What is lost when a device is given away: an untouched device, larger partitions, or capacity that fits nothing more.

A *unit* is what can stay whole: a device, or all partitions that draw on one counter set. A unit is untouched while
nothing of it is in use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.allocation.counters import CounterCache
from dra_spawner.dra.allocation.requests import PreparedAlternative, PreparedClaim
from dra_spawner.dra.allocation.search import Search
from dra_spawner.dra.model.consumable_capacity import Share
from dra_spawner.dra.model.devices import CounterName, Device
from dra_spawner.dra.model.pools import Candidate, Pool
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.pool_views import NodeView

#: Devices of a node above which none is chosen: each is looked at.
MAX_CANDIDATES: Final = 1024
#: Parts of one unit.
PARTS: Final = 1_000_000


class Cost(NamedTuple):
    """What is lost; the lowest is best.

    Attributes
    ----------
    opened
        Untouched units that are in use then.
    lost
        Partitions that cannot be given any more, each by the square of its size, in millionths.
    left
        What is left of a shared device for later shares, in millionths: the fullest one with capacity is best.
    """

    opened: int = 0
    lost: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class Option:
    """A device that a request can have now.

    Attributes
    ----------
    place
        Its place in the order in which kube-scheduler tries devices.
    taken
        The part of its unit that the request takes, in millionths.
    """

    cost: Cost
    place: int
    candidate: Candidate
    taken: int


@dataclass(frozen=True, slots=True)
class Options:
    """The devices that a request can have now, in kube-scheduler's order.

    Attributes
    ----------
    untouched
        Untouched units among them.
    free
        What is free of all their units, in millionths of one.
    """

    devices: tuple[Option, ...]
    untouched: int
    free: int


class NodeDevices:
    """The devices of one node, while some are given to the requests of one pod."""

    def __init__(
        self, view: NodeView, claims: tuple[PreparedClaim, ...], allocated: AllocatedState, rules: SchedulerRules
    ) -> None:
        self._allocated = allocated
        self._search = Search(claims, view.pools, view.node, allocated, CounterCache(allocated, rules), rules)

    @property
    def are_few(self) -> bool:
        """Whether each device can be looked at."""
        return len(self._search.candidates) <= MAX_CANDIDATES

    def take(self, alternative: PreparedAlternative, candidate: Candidate) -> None:
        """Give a device to the pod."""
        self._search.try_device(alternative, candidate)

    def options(self, alternative: PreparedAlternative) -> Options:
        """Devices that the request can have now.

        Raises
        ------
        AllocationError
            When the scheduler would give up on the pod.
        """
        found: list[Option] = []
        untouched: set[Hashable] = set()
        free: dict[Hashable, int] = {}
        for place, candidate in enumerate(self._search.candidates):
            device, pool = candidate.device, candidate.pool
            before = self._search.counters.left(pool) if device.consumes_counters else {}
            is_whole = self._is_untouched(device, pool, before)
            taken = self._search.try_device(alternative, candidate)
            if taken is None:
                continue
            lost = self._lost(device, pool, before) if taken.counters_reserved else 0
            left, part = self._left(device, taken.share)
            self._search.give_back(taken)
            units = _units(device)
            if device.consumes_counters:
                part = round(_size(device, pool) * PARTS)
            if is_whole:
                untouched |= units
            for unit in units:
                free_part = _free_part(unit, pool, before) if device.consumes_counters else left + part
                free[unit] = max(free.get(unit, 0), free_part)
            found.append(Option(Cost(int(is_whole), lost, left), place, candidate, part))
        return Options(tuple(found), len(untouched), sum(free.values()))

    def _is_untouched(self, device: Device, pool: Pool, left: dict[CounterName, int]) -> bool:
        if device.consumes_counters:
            sets = set(device.counter_sets)
            return all(left[name] == total for name, total in pool.counters.items() if name.counter_set in sets)
        key = device.id
        return not (self._allocated.is_allocated(key) or key in self._search.taken or key in self._search.consumed)

    def _lost(self, device: Device, pool: Pool, before: dict[CounterName, int]) -> int:
        """Other partitions of the same counter sets that fitted before, and do not fit any more."""
        after, lost = self._search.counters.left(pool), 0.0
        sets = set(device.counter_sets)
        for other in _devices(pool):
            if other is device or sets.isdisjoint(other.counter_sets) or self._is_used(other):
                continue
            amounts = other.consumes_counters
            if all(before[name] >= amount for name, amount in amounts) and any(
                after[name] < amount for name, amount in amounts
            ):
                lost += _size(other, pool) ** 2
        return round(lost * PARTS)

    def _is_used(self, device: Device) -> bool:
        return self._allocated.is_allocated(device.id) or device.id in self._search.taken

    def _left(self, device: Device, share: Share | None) -> tuple[int, int]:
        """What is left of a device that has just been taken, and what was taken of it, in millionths."""
        if share is None:
            return 0, PARTS
        aggregated = self._allocated.consumed_capacity(device.id) or {}
        in_call = self._search.consumed.get(device.id) or {}
        parts = [
            ((value - aggregated.get(name, 0) - in_call.get(name, 0)) / value, amount / value)
            for name, amount, value in share.checks
            if value > 0 and amount
        ]
        left, taken = (sum(each) / len(parts) * PARTS for each in zip(*parts, strict=True)) if parts else (0, PARTS)
        return round(left), round(taken)


def _units(device: Device) -> set[Hashable]:
    if not device.consumes_counters:
        return {device.id}
    return {(device.id.driver, device.id.pool, each) for each in device.counter_sets}


def _devices(pool: Pool) -> Iterator[Device]:
    return (device for part in pool.slices for device in part.devices)


def _size(device: Device, pool: Pool) -> float:
    """The largest part that it takes of a counter, from 0 to 1."""
    parts: Iterable[float] = (
        amount / total for name, amount in device.consumes_counters if (total := pool.counters.get(name, 0)) > 0
    )
    return max(parts, default=0.0)


def _free_part(unit: Hashable, pool: Pool, left: dict[CounterName, int]) -> int:
    """What is left of a counter set, in millionths."""
    counter_set = unit[2] if isinstance(unit, tuple) else ""
    parts = (
        left[name] / total for name, total in pool.counters.items() if name.counter_set == counter_set and total > 0
    )
    return round(max(min(parts, default=0.0), 0.0) * PARTS)
