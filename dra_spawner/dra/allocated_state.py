"""What is taken already, gathered from the claims that have an allocation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from dra_spawner.dra.claims import AllocatedDevice, ResourceClaim
from dra_spawner.dra.devices import DeviceId
from dra_spawner.dra.features import SCHEDULER_1_36, Features
from dra_spawner.dra.quantity import Quantity

__all__ = ["AllocatedState"]


@dataclass(slots=True)
class _Shares:
    """Live shares of one device."""

    count: int = 0
    with_capacity: int = 0
    """How many of them say what they consume, be it nothing."""
    consumed: dict[str, int] = field(default_factory=dict)
    """Sum by capacity name, in nano-units; names that sum up to zero are dropped."""


class AllocatedState:
    """Devices and shares held by allocated claims.

    Results with admin access count for nothing. A result with a share id is a share; any other takes the whole
    device. With consumable capacity off, shares count as whole devices. Adding and removing is exact: after any
    sequence the state is the one made from the claims that are left.
    """

    __slots__ = ("_consumable_capacity", "_devices", "_shares")

    def __init__(self, features: Features = SCHEDULER_1_36) -> None:
        self._consumable_capacity = features.consumable_capacity
        self._devices: dict[DeviceId, int] = {}
        self._shares: dict[DeviceId, _Shares] = {}

    @classmethod
    def from_claims(cls, claims: Iterable[ResourceClaim], features: Features = SCHEDULER_1_36) -> AllocatedState:
        """State that these claims make; those without allocation are passed over."""
        state = cls(features)
        for claim in claims:
            state.add(claim.status.devices or ())
        return state

    def copy(self) -> AllocatedState:
        """An independent copy."""
        other = AllocatedState.__new__(AllocatedState)
        other._consumable_capacity = self._consumable_capacity
        other._devices = dict(self._devices)
        other._shares = {
            device: _Shares(shares.count, shares.with_capacity, dict(shares.consumed))
            for device, shares in self._shares.items()
        }
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllocatedState):
            return NotImplemented
        return self._devices == other._devices and self._shares == other._shares

    __hash__ = None  # type: ignore[assignment]

    def add(self, results: Iterable[AllocatedDevice]) -> None:
        """Count the results of one claim's allocation."""
        for result in results:
            if result.admin_access:
                continue
            if result.share_id is None or not self._consumable_capacity:
                self._devices[result.id] = self._devices.get(result.id, 0) + 1
            else:
                self._add_share(result.id, result.consumed_capacity, 1)

    def remove(self, results: Iterable[AllocatedDevice]) -> None:
        """Undo :meth:`add` of the same results."""
        for result in results:
            if result.admin_access:
                continue
            if result.share_id is None or not self._consumable_capacity:
                left = self._devices.pop(result.id) - 1
                if left:
                    self._devices[result.id] = left
            else:
                self._add_share(result.id, result.consumed_capacity, -1)

    def is_taken(self, device: DeviceId) -> bool:
        """Whether a claim holds the whole device."""
        return device in self._devices

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether a claim holds the device or a share of it, so that its counters are paid."""
        return device in self._devices or device in self._shares

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int] | None:
        """Capacity consumed by all shares, in nano-units; None when no share says what it consumes."""
        shares = self._shares.get(device)
        return shares.consumed if shares is not None and shares.with_capacity else None

    def has_shares(self, device: DeviceId) -> bool:
        """Whether a claim holds a share of the device."""
        return device in self._shares

    def uses(self, devices: Iterable[DeviceId]) -> tuple[Hashable, ...]:
        """Of each device, how it is used as far as that decides anything; None while it is free."""
        taken, shared = self._devices, self._shares
        return tuple(
            [(device in taken) or None if device not in shared else self._use_of_shared(device) for device in devices]
        )

    def _use_of_shared(self, device: DeviceId) -> Hashable:
        shares = self._shares[device]
        if not shares.with_capacity:
            return device in self._devices, None
        consumed = shares.consumed.items()
        return device in self._devices, *(consumed if len(consumed) == 1 else sorted(consumed))

    def _add_share(self, device: DeviceId, consumed: Mapping[str, Quantity] | None, sign: int) -> None:
        shares = self._shares.get(device)
        if shares is None:
            shares = self._shares[device] = _Shares()
        shares.count += sign
        if consumed is not None:
            shares.with_capacity += sign
            for name, quantity in consumed.items():
                total = shares.consumed.get(name, 0) + sign * quantity.nano
                if total:
                    shares.consumed[name] = total
                else:
                    shares.consumed.pop(name, None)
        if not shares.count:
            del self._shares[device]
