"""What one share of a device consumes, and whether it still fits (KEP-5075)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.decoding import MAX_INT64, MIN_INT64
from dra_spawner.dra.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from dra_spawner.dra.quantity import Quantity, QuantityFormat

__all__ = ["Share", "ShareRefused", "consumed_by_request", "share_of", "shortage"]

_SHORT_NUMBER_DIGITS: Final = 18
"""Up to so many digits Kubernetes keeps a number and its suffix apart; longer numbers are big integers."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a request would consume of a device."""

    consumed: tuple[tuple[str, Quantity], ...]
    """For every capacity of the device, requested or not, in the device's order."""
    checks: tuple[tuple[str, int, int], ...]
    """Name, amount and the device's value of every capacity, in nano-units."""


@dataclass(frozen=True, slots=True)
class ShareRefused:
    """Why a request can never be served by a device, however idle it is."""

    capacity: str
    needed: Quantity
    """What the request asks for, or what it would be rounded to."""
    is_unknown: bool = False
    """The device has no such capacity; otherwise its policy does not allow the amount."""


def share_of(capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, Quantity] | None) -> Share | ShareRefused:
    """What a request consumes of a device with these capacities.

    Names are compared as they stand: ``memory`` and ``<driver>/memory`` are different ones.
    """
    for name, requested in (requests or {}).items():
        if name not in capacities:
            return ShareRefused(name, requested, is_unknown=True)
    consumed = []
    checks = []
    for name, capacity in capacities.items():
        wanted = requests.get(name) if requests else None
        amount = consumed_by_request(capacity, wanted)
        if capacity.policy is not None and violates_policy(amount, capacity.policy, is_default=wanted is None):
            return ShareRefused(name, amount)
        consumed.append((name, amount))
        checks.append((name, amount.nano, capacity.value.nano))
    return Share(tuple(consumed), tuple(checks))


def consumed_by_request(capacity: DeviceCapacity, requested: Quantity | None) -> Quantity:
    """What one share consumes of one capacity: the default or everything when nothing is asked for, else the amount
    rounded up as the policy says.
    """
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None:
        return _round_up_to_range(requested, policy.valid_range)
    for value in policy.valid_values:
        if requested <= value:
            return value
    return requested


def violates_policy(amount: Quantity, policy: CapacityPolicy, *, is_default: bool = False) -> bool:
    """Whether a share may not consume this amount; the policy's own default is never refused.

    Parameters
    ----------
    is_default
        Nothing was requested, so the amount is the default (or, without one, the whole capacity).
    """
    if policy.default is not None and (is_default or _is_same(amount, policy.default)):
        return False
    valid_range = policy.valid_range
    if valid_range is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid_range.maximum is not None and amount > valid_range.maximum:
        return True
    if valid_range.step is None:
        return False
    return (_as_int64(amount) - _as_int64(valid_range.minimum)) % _as_int64(valid_range.step) != 0


def shortage(
    share: Share, aggregated: Mapping[str, int] | None, in_call: Mapping[str, int] | None
) -> tuple[str, int, int] | None:
    """The first capacity that does not suffice: name, what is left and what is needed, in nano-units.

    Parameters
    ----------
    aggregated
        Consumed by allocated claims, in nano-units.
    in_call
        Consumed by what is being allocated right now, in nano-units.
    """
    for name, amount, value in share.checks:
        left = value
        if aggregated:
            left -= aggregated.get(name, 0)
        if in_call:
            left -= in_call.get(name, 0)
        if amount > left:
            return name, left, amount
    return None


def _round_up_to_range(requested: Quantity, valid_range: CapacityRange) -> Quantity:
    if requested < valid_range.minimum:
        return valid_range.minimum
    if valid_range.step is None:
        return requested
    # As in Kubernetes, minimum, step and request are each made whole units first, and the result is binary.
    minimum, step = _as_int64(valid_range.minimum), _as_int64(valid_range.step)
    steps, rest = _divide(_as_int64(requested) - minimum, step)
    return Quantity.from_value(_wrap(minimum + step * (steps + bool(rest))), QuantityFormat.BINARY_SI)


def _divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Quotient rounded toward zero, and rest."""
    quotient = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        quotient = -quotient
    return quotient, dividend - quotient * divisor


def _as_int64(quantity: Quantity) -> int:
    """Whole units as kube-scheduler computes them: beyond int64 it gets nothing, or whatever the low bits say."""
    value = quantity.value()
    if MIN_INT64 <= value <= MAX_INT64:
        return value
    digits = sum(character.isdigit() for character in quantity.canonical().partition("e")[0])
    return 0 if digits <= _SHORT_NUMBER_DIGITS else _wrap(value)


def _wrap(value: int) -> int:
    return (value - MIN_INT64) % 2**64 + MIN_INT64


def _is_same(left: Quantity, right: Quantity) -> bool:
    """Equal in value, format and text, which is how Kubernetes recognises the default."""
    return left == right and left.format is right.format and str(left) == str(right)
