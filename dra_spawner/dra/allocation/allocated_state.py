"""What is taken already, gathered from the claims that have an allocation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dra_spawner.dra.model.claims import AllocatedDevice, ResourceClaim
from dra_spawner.dra.model.devices import DeviceId, PoolId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, SchedulerRules

DeviceUse = tuple[bool, *tuple[str | int, ...]] | Literal[True] | None
"""How a device is used: None while it is free, True if it is taken and has no shares. If it has shares, whether it is
taken, too, then the names and amounts of what they consume in turn, or a lone 0 if they do not say."""

PoolDevices = tuple[PoolId, tuple[str, ...]]
"""Devices of one pool, by name."""


@dataclass(slots=True)
class _PoolUse:
    """What is held of one pool, by the names of its devices."""

    taken: dict[str, int] = field(default_factory=dict)
    """How many claims hold the whole device."""
    shares: dict[str, int] = field(default_factory=dict)
    """How many live shares the device has."""
    silent: dict[str, int] = field(default_factory=dict)
    """How many of them do not say what they consume, not even nothing."""
    consumed: dict[str, dict[str, int]] = field(default_factory=dict)
    """What the others consume, by capacity name and in nano-units; names that sum up to zero are dropped."""
    miscounted: dict[str, int] = field(default_factory=dict)
    """How many of them consume a negative amount of something, or nothing of everything."""

    def copy(self) -> _PoolUse:
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        silent, miscounted = dict(self.silent), dict(self.miscounted)
        return _PoolUse(dict(self.taken), dict(self.shares), silent, consumed, miscounted)

    def use_of(self, device: str) -> DeviceUse:
        """The part of a device's use that decides about claims."""
        is_taken = device in self.taken
        if device not in self.shares:
            return is_taken or None
        consumed = self.consumed.get(device)
        if consumed is None:
            return is_taken, 0
        if len(consumed) == 1:
            ((name, amount),) = consumed.items()
            return is_taken, name, amount
        amounts: list[str | int] = [part for item in sorted(consumed.items()) for part in item]
        return is_taken, *amounts


class AllocatedState:
    """Devices and shares held by allocated claims.

    Results with admin access count for nothing. A result with a share id is a share; any other takes the whole
    device. With consumable capacity off, shares count as whole devices. Adding and removing is exact: after any
    sequence the state is the one made from the claims that are left.
    """

    __slots__ = ("_consumable_capacity", "_names_as_text", "_pools")

    def __init__(self, rules: SchedulerRules = DEFAULT_RULES) -> None:
        self._consumable_capacity = rules.features.consumable_capacity
        self._names_as_text = rules.quirks.capacity_names_as_text
        # By pool first, so that what concerns one node is found by a look-up for each pool, not for each device. The
        # keys are what PoolIds are equal to.
        self._pools: dict[tuple[str, str], _PoolUse] = {}

    @classmethod
    def from_claims(cls, claims: Iterable[ResourceClaim], rules: SchedulerRules = DEFAULT_RULES) -> AllocatedState:
        """State that these claims make; those without allocation are ignored."""
        state = cls(rules)
        state.add_all([claim.status.devices for claim in claims if claim.status.devices])
        return state

    def copy(self) -> AllocatedState:
        """An independent copy."""
        other = AllocatedState.__new__(AllocatedState)
        other._consumable_capacity = self._consumable_capacity
        other._names_as_text = self._names_as_text
        other._pools = {pool: use.copy() for pool, use in self._pools.items()}
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllocatedState):
            return NotImplemented
        return self._pools == other._pools

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
                    use = pools[driver, pool] = _PoolUse()
                if result.share_id is None or not consumable_capacity:
                    use.taken[device] = use.taken.get(device, 0) + 1
                    continue
                use.shares[device] = use.shares.get(device, 0) + 1
                if result.consumed_capacity is None:
                    use.silent[device] = use.silent.get(device, 0) + 1
                    continue
                consumed = use.consumed.get(device)
                if consumed is None:
                    consumed = use.consumed[device] = {}
                if _is_miscounted(result.consumed_capacity):
                    use.miscounted[device] = use.miscounted.get(device, 0) + 1
                for name, quantity in self._by_name(driver, result.consumed_capacity):
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
                _decrement(use.taken, device)
            else:
                _decrement(use.shares, device)
                if result.consumed_capacity is not None and _is_miscounted(result.consumed_capacity):
                    _decrement(use.miscounted, device)
                if result.consumed_capacity is None:
                    _decrement(use.silent, device)
                elif use.shares.get(device, 0) == use.silent.get(device, 0):
                    # It was the last share that says what it consumes.
                    del use.consumed[device]
                else:
                    consumed = use.consumed[device]
                    for name, quantity in self._by_name(driver, result.consumed_capacity):
                        consumed[name] = consumed.get(name, 0) - quantity.nano
                        if not consumed[name]:
                            del consumed[name]
            if not use.taken and not use.shares:
                del self._pools[driver, pool]

    def _by_name(self, driver: str, consumed: Mapping[str, Quantity]) -> Iterable[tuple[str, Quantity]]:
        """Amounts by the name under which they count."""
        if not self._names_as_text:
            for name in consumed:
                if "/" in name:
                    prefix = f"{driver}/"
                    # A scheduler up to 1.37 may have written both names of one capacity: the longer one wins.
                    return {each.removeprefix(prefix): consumed[each] for each in sorted(consumed, key=len)}.items()
        return consumed.items()

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
        return use.consumed.get(device.device) if use is not None else None

    def has_shares(self, device: DeviceId) -> bool:
        """Whether a claim holds a share of the device."""
        use = self._pools.get(device[:2])
        return use is not None and device.device in use.shares

    def is_miscounted(self, device: DeviceId) -> bool:
        """Whether a share of the device consumes a negative amount, or nothing: then it is fuller than it seems.

        kube-scheduler counts in 64 bits, see `consumable_capacity`.
        """
        use = self._pools.get(device[:2])
        return use is not None and device.device in use.miscounted

    def uses(self, devices: Iterable[PoolDevices]) -> tuple[DeviceUse, ...]:
        """The use of each device, as far as it decides about claims."""
        uses: list[DeviceUse] = []
        for pool, names in devices:
            use = self._pools.get(pool)
            if use is None:
                uses += [None] * len(names)
            elif use.shares:
                uses += [use.use_of(name) for name in names]
            else:
                taken = use.taken
                uses += [True if name in taken else None for name in names]
        return tuple(uses)


def consumed_in(use: DeviceUse) -> tuple[bool, dict[str, int] | None]:
    """Whether the whole device is taken, and what `AllocatedState.consumed_capacity` says of it."""
    if use is None or use is True:
        return use is True, None
    is_taken, *consumed = use
    if consumed == [0]:
        return is_taken, None
    return is_taken, {str(name): int(amount) for name, amount in zip(consumed[::2], consumed[1::2], strict=True)}


def _is_miscounted(consumed: Mapping[str, Quantity]) -> bool:
    is_something = not consumed
    for quantity in consumed.values():
        if quantity.nano < 0:
            return True
        if quantity.nano:
            is_something = True
    return not is_something


def _decrement(counts: dict[str, int], device: str) -> None:
    left = counts.pop(device) - 1
    if left:
        counts[device] = left
