"""What one share of a device consumes, and whether it still fits (KEP-5075).

Where a policy has steps, kube-scheduler counts whole units in 64 bits and reports no overflow: a request above 2^63-1
may consume nothing, or a negative amount. That is a quirk (``Quirks.capacity_in_64_bits``); without it amounts are
exact. `consumes_too_little` finds the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dra_spawner.dra.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from dra_spawner.dra.quantity import Quantity, QuantityFormat, wrap_int64

__all__ = ["Share", "ShareRefused", "consumed_by_request", "consumes_too_little", "share_of", "shortage"]


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


def share_of(
    capacities: Mapping[str, DeviceCapacity], requests: Mapping[str, Quantity] | None, *, in_64_bits: bool = True
) -> Share | ShareRefused:
    """What a request consumes of a device with these capacities.

    Names are compared as they stand: ``memory`` and ``<driver>/memory`` are different ones.

    Parameters
    ----------
    in_64_bits
        Whether sizes overflow as in kube-scheduler (``Quirks.capacity_in_64_bits``).
    """
    for name, requested in (requests or {}).items():
        if name not in capacities:
            return ShareRefused(name, requested, is_unknown=True)
    consumed = []
    checks = []
    for name, capacity in capacities.items():
        wanted = requests.get(name) if requests else None
        amount = consumed_by_request(capacity, wanted, in_64_bits=in_64_bits)
        if capacity.policy is not None and violates_policy(
            amount, capacity.policy, is_default=wanted is None, in_64_bits=in_64_bits
        ):
            return ShareRefused(name, amount)
        consumed.append((name, amount))
        checks.append((name, amount.nano, capacity.value.nano))
    return Share(tuple(consumed), tuple(checks))


def consumed_by_request(capacity: DeviceCapacity, requested: Quantity | None, *, in_64_bits: bool = True) -> Quantity:
    """What one share consumes of one capacity: the default or everything when nothing is asked for, else the amount
    rounded up as the policy says.
    """
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None:
        return _round_up_to_range(requested, policy.valid_range, in_64_bits)
    for value in policy.valid_values:
        if requested <= value:
            return value
    return requested


def consumes_too_little(requested: Quantity, consumed: Quantity) -> bool:
    """Whether a share consumes less than was asked for, or a negative amount: then the device is overcommitted."""
    return consumed < requested or consumed.sign < 0


def violates_policy(
    amount: Quantity, policy: CapacityPolicy, *, is_default: bool = False, in_64_bits: bool = True
) -> bool:
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
    minimum, step = _units(valid_range.minimum, in_64_bits), _units(valid_range.step, in_64_bits)
    return _wrap(amount.value() - minimum, in_64_bits) % step != 0


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


def _round_up_to_range(requested: Quantity, valid_range: CapacityRange, in_64_bits: bool) -> Quantity:
    if requested < valid_range.minimum:
        return valid_range.minimum
    if valid_range.step is None:
        return requested
    # As in Kubernetes, minimum, step and request are each made whole units first, and the result is binary.
    minimum, step = _units(valid_range.minimum, in_64_bits), _units(valid_range.step, in_64_bits)
    wanted = requested.int64_value(compared_with=valid_range.minimum) if in_64_bits else requested.value()
    steps, rest = _divide(_wrap(wanted - minimum, in_64_bits), step)
    return Quantity.from_value(_wrap(minimum + step * (steps + bool(rest)), in_64_bits), QuantityFormat.BINARY_SI)


def _divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Quotient rounded toward zero, and rest."""
    quotient = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        quotient = -quotient
    return quotient, dividend - quotient * divisor


def _units(quantity: Quantity, in_64_bits: bool) -> int:
    return quantity.int64_value() if in_64_bits else quantity.value()


def _wrap(value: int, in_64_bits: bool) -> int:
    return wrap_int64(value) if in_64_bits else value


def _is_same(left: Quantity, right: Quantity) -> bool:
    """Equal in value, format and text, which is how Kubernetes recognises the default."""
    return left == right and left.format is right.format and str(left) == str(right)
