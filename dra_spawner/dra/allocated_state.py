"""What is taken already, gathered from the claims that have an allocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dra_spawner.dra.claims import AllocatedDevice, ResourceClaim
from dra_spawner.dra.devices import DeviceId, PoolId
from dra_spawner.dra.features import SCHEDULER_1_36, Features

__all__ = ["AllocatedState", "DeviceUse", "PoolDevices", "consumed_in"]

DeviceUse = tuple[bool, *tuple[tuple[str, int] | None, ...]] | Literal[True] | None
"""How a device is used: None while it is free, True if it is taken and has no shares. If it has shares, whether it is
taken, too, then what they consume by capacity name, or None if they do not say."""


PoolDevices = tuple[PoolId, tuple[str, ...]]
"""Devices of one pool, by name."""


@dataclass(slots=True)
class _Shares:
    """Live shares of one device."""

    count: int
    with_capacity: int
    """How many of them say what they consume, be it nothing."""
    consumed: dict[str, int]
    """Sum by capacity name, in nano-units; names that sum up to zero are dropped."""

    def copy(self) -> _Shares:
        return _Shares(self.count, self.with_capacity, dict(self.consumed))


@dataclass(slots=True)
class _PoolUse:
    """What is held of one pool, by the names of its devices."""

    taken: dict[str, int]
    """How many claims hold the whole device."""
    shares: dict[str, _Shares]

    def copy(self) -> _PoolUse:
        return _PoolUse(dict(self.taken), {device: shares.copy() for device, shares in self.shares.items()})


class AllocatedState:
    """Devices and shares held by allocated claims.

    Results with admin access count for nothing. A result with a share id is a share; any other takes the whole
    device. With consumable capacity off, shares count as whole devices. Adding and removing is exact: after any
    sequence the state is the one made from the claims that are left.
    """

    __slots__ = ("_consumable_capacity", "_pools")

    def __init__(self, features: Features = SCHEDULER_1_36) -> None:
        self._consumable_capacity = features.consumable_capacity
        # By pool first, so that what concerns one node is found by a look-up for each pool, not for each device. The
        # keys are what PoolIds are equal to.
        self._pools: dict[tuple[str, str], _PoolUse] = {}

    @classmethod
    def from_claims(cls, claims: Iterable[ResourceClaim], features: Features = SCHEDULER_1_36) -> AllocatedState:
        """State that these claims make; those without allocation are passed over."""
        state = cls(features)
        state.add_all([claim.status.devices for claim in claims if claim.status.devices])
        return state

    def copy(self) -> AllocatedState:
        """An independent copy."""
        other = AllocatedState.__new__(AllocatedState)
        other._consumable_capacity = self._consumable_capacity
        other._pools = {pool: use.copy() for pool, use in self._pools.items()}
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllocatedState):
            return NotImplemented
        return self._pools == other._pools

    __hash__ = None  # type: ignore[assignment]

    def add(self, results: Iterable[AllocatedDevice]) -> None:
        """Count the results of one claim's allocation."""
        self.add_all((results,))

    def add_all(self, allocations: Iterable[Iterable[AllocatedDevice]]) -> None:
        """Count the results of many claims' allocations."""
        pools, consumable_capacity = self._pools, self._consumable_capacity
        for results in allocations:
            for result in results:
                if result.admin_access:
                    continue
                driver, pool, device = result.id
                use = pools.get((driver, pool))
                if use is None:
                    use = pools[driver, pool] = _PoolUse({}, {})
                if result.share_id is None or not consumable_capacity:
                    use.taken[device] = use.taken.get(device, 0) + 1
                    continue
                shares = use.shares.get(device)
                if shares is None:
                    shares = use.shares[device] = _Shares(0, 0, {})
                shares.count += 1
                if result.consumed_capacity is not None:
                    shares.with_capacity += 1
                    consumed = shares.consumed
                    for name, quantity in result.consumed_capacity.items():
                        consumed[name] = consumed.get(name, 0) + quantity.nano
                        if not consumed[name]:
                            del consumed[name]

    def remove(self, results: Iterable[AllocatedDevice]) -> None:
        """Undo :meth:`add` of the same results."""
        for result in results:
            if result.admin_access:
                continue
            driver, pool, device = result.id
            use = self._pools[driver, pool]
            if result.share_id is None or not self._consumable_capacity:
                left = use.taken.pop(device) - 1
                if left:
                    use.taken[device] = left
            else:
                shares = use.shares[device]
                shares.count -= 1
                if result.consumed_capacity is not None:
                    shares.with_capacity -= 1
                    for name, quantity in result.consumed_capacity.items():
                        shares.consumed[name] = shares.consumed.get(name, 0) - quantity.nano
                        if not shares.consumed[name]:
                            del shares.consumed[name]
                if not shares.count:
                    del use.shares[device]
            if not use.taken and not use.shares:
                del self._pools[driver, pool]

    def is_taken(self, device: DeviceId) -> bool:
        """Whether a claim holds the whole device."""
        use = self._pools.get(device[:2])
        return use is not None and device.device in use.taken

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether a claim holds the device or a share of it, so that its counters are paid."""
        use = self._pools.get(device[:2])
        return use is not None and (device.device in use.taken or device.device in use.shares)

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int] | None:
        """Capacity consumed by all shares, in nano-units; None when no share says what it consumes."""
        use = self._pools.get(device[:2])
        shares = use.shares.get(device.device) if use is not None else None
        return shares.consumed if shares is not None and shares.with_capacity else None

    def has_shares(self, device: DeviceId) -> bool:
        """Whether a claim holds a share of the device."""
        use = self._pools.get(device[:2])
        return use is not None and device.device in use.shares

    def uses(self, devices: Iterable[PoolDevices]) -> tuple[DeviceUse, ...]:
        """Of each device, how it is used as far as that decides anything."""
        uses: list[DeviceUse] = []
        for pool, names in devices:
            use = self._pools.get(pool)
            if use is None:
                uses += [None] * len(names)
            elif use.shares:
                taken, shares_of = use.taken, use.shares.get
                uses += [_use_of(shares_of(name), name in taken) for name in names]
            else:
                taken = use.taken
                uses += [True if name in taken else None for name in names]
        return tuple(uses)


def consumed_in(use: DeviceUse) -> tuple[bool, dict[str, int] | None]:
    """Whether the whole device is taken, and what `AllocatedState.consumed_capacity` says of it."""
    if use is None or use is True:
        return use is True, None
    is_taken, *consumed = use
    return is_taken, None if consumed == [None] else dict(item for item in consumed if item is not None)


def _use_of(shares: _Shares | None, is_taken: bool) -> DeviceUse:
    if shares is None:
        return is_taken or None
    if not shares.with_capacity:
        return is_taken, None
    consumed = shares.consumed
    return is_taken, *(consumed.items() if len(consumed) == 1 else sorted(consumed.items()))
