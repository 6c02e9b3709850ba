"""What one share of a device consumes, and whether it still fits (KEP-5075).

Where a policy has steps, kube-scheduler counts whole units in 64 bits. Up to 1.36 it reports no overflow: a request
above 2^63-1 may consume nothing, or a negative amount. That is a quirk (``Quirks.capacity_in_64_bits``); without it
such a request, and each negative amount, is an error of the claim. `consumes_too_little` finds the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dra_spawner.dra.model.devices import CapacityPolicy, CapacityRange, DeviceCapacity, DeviceDescription
from dra_spawner.dra.quantity import (
    MAX_INT64,
    MIN_INT64,
    NANO_PER_UNIT,
    Quantity,
    QuantityFormat,
    int64_scale,
    wrap_int64,
)
from dra_spawner.dra.scheduler_rules import SchedulerRules

_NOTHING: Final[Mapping[str, Quantity]] = {}
_NANO_PER_THOUSANDTH: Final = NANO_PER_UNIT // 1000
#: 1Ti in nano-units: Go keeps each smaller whole number in 64 bits, whatever its text.
_CERTAINLY_SMALL: Final = 2**40 * NANO_PER_UNIT
_NO_STEP: Final = "its step cannot be counted in 64 bits, and kube-scheduler divides by zero"


@dataclass(frozen=True, slots=True)
class Share:
    """What a request would consume of a device."""

    consumed: tuple[tuple[str, Quantity], ...]
    """For every capacity of the device, requested or not, in the device's order."""
    checks: tuple[tuple[str, int, int], ...]
    """Name, amount and the device's value of every capacity, in nano-units. From 1.38 on, names are without the domain
    of the device's driver."""


@dataclass(frozen=True, slots=True)
class ShareRefused:
    """Why a request can never be served by a device, however idle it is."""

    capacity: str
    needed: Quantity
    """What the request asks for, or what it would be rounded to."""
    is_unknown: bool = False
    """The device has no such capacity; otherwise its policy does not allow the amount."""


@dataclass(frozen=True, slots=True)
class ShareError:
    """Why kube-scheduler gives up on a claim as soon as it looks at the device: no other device is tried."""

    capacity: str
    problem: str

    def __str__(self) -> str:
        return f"capacity {self.capacity}: {self.problem}"


def share_of(
    description: DeviceDescription, requests: Mapping[str, Quantity] | None, rules: SchedulerRules
) -> Share | ShareRefused | ShareError:
    """What a request consumes of a device.

    Up to 1.37 names are compared as they stand: ``memory`` and ``<driver>/memory`` are different ones.
    """
    capacities, asked = description.capacity, requests or _NOTHING
    names: Mapping[str, str] | None = None
    if not rules.quirks.capacity_names_as_text:
        prefix = f"{description.driver}/"
        # The longer name wins if both are published.
        names = {name.removeprefix(prefix): name for name in sorted(capacities, key=len)}
        capacities = {name: capacities[published] for name, published in names.items()}
        asked = {name.removeprefix(prefix): amount for name, amount in asked.items()}
    for name, requested in asked.items():
        if name not in capacities:
            return ShareRefused(name, requested, is_unknown=True)
    if requests is not None and len(asked) < len(requests):
        twice = next(name for name in asked if name in requests and f"{description.driver}/{name}" in requests)
        return ShareError(twice, f"it is asked for as {description.driver}/{twice}, too")
    consumed = []
    checks = []
    for name, capacity in capacities.items():
        wanted = asked.get(name)
        if wanted is not None and wanted.sign < 0 and not rules.quirks.negative_sizes_rounded:
            return ShareError(name, f"{wanted} is negative")
        amount = consumed_by_request(capacity, wanted, rules)
        if amount is None:
            return ShareError(name, "the size cannot be counted in 64 bits")
        if amount.sign < 0 and not rules.quirks.capacity_in_64_bits:
            return ShareError(name, f"{amount} is negative")
        consumed.append((name, amount))
        checks.append((name, amount.nano, capacity.value.nano))
    for name, amount in consumed:
        policy = capacities[name].policy
        violates = policy is not None and violates_policy(amount, policy, rules, is_default=name not in asked)
        if violates is None:
            return ShareError(name, _NO_STEP)
        if violates:
            return ShareRefused(name, amount)
    if names is not None:
        consumed = [(names[name], amount) for name, amount in consumed]
    return Share(tuple(consumed), tuple(checks))


def capacity_of(description: DeviceDescription, name: str) -> DeviceCapacity:
    """A capacity of a device by a name in a `Share` or a `ShareRefused`."""
    found = description.capacity.get(f"{description.driver}/{name}")
    return description.capacity[name] if found is None or name in description.capacity else found


def consumed_by_request(capacity: DeviceCapacity, requested: Quantity | None, rules: SchedulerRules) -> Quantity | None:
    """What one share consumes of one capacity: the default or everything when nothing is asked for, else the amount
    rounded up as the policy says; None if kube-scheduler cannot count the amount and says so.
    """
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None:
        return _round_up_to_range(requested, policy.valid_range, rules)
    for value in policy.valid_values:
        if requested <= value:
            return value
    return requested


def consumes_too_little(requested: Quantity, consumed: Quantity) -> bool:
    """Whether a share consumes less than was asked for, or a negative amount: then the device is overcommitted."""
    return consumed < requested or consumed.sign < 0


def violates_policy(
    amount: Quantity, policy: CapacityPolicy, rules: SchedulerRules, *, is_default: bool = False
) -> bool | None:
    """Whether a share may not consume this amount; the policy's own default is never refused.

    Parameters
    ----------
    is_default
        Nothing was requested, so the amount is the default (or, without one, the whole capacity).

    Returns
    -------
    bool or None
        None if kube-scheduler crashes: in 64 bits the policy's step is zero.
    """
    default = policy.default
    if default is not None and (is_default or _is_same(amount, default)) and _is_recognized(default, rules):
        return False
    valid_range = policy.valid_range
    if valid_range is None:
        return bool(policy.valid_values) and amount not in policy.valid_values
    if valid_range.maximum is not None and amount > valid_range.maximum:
        return True
    if valid_range.step is None:
        return False
    if _counts_thousandths(valid_range, valid_range.step, rules):
        exact = _thousandths(amount)
        return exact is None or (exact - _in_thousandths(valid_range.minimum)) % _in_thousandths(valid_range.step) != 0
    minimum, step = _units(valid_range.minimum, rules), _units(valid_range.step, rules)
    if not step:
        return None
    return wrap_int64(_units(amount, rules, compared_with=valid_range.maximum) - minimum) % step != 0


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


def _round_up_to_range(requested: Quantity, valid_range: CapacityRange, rules: SchedulerRules) -> Quantity | None:
    if requested < valid_range.minimum:
        return valid_range.minimum
    step = valid_range.step
    if step is None:
        return requested
    if _counts_thousandths(valid_range, step, rules):
        wanted = _thousandths(requested)
        if wanted is None:
            return None
        minimum, each = _in_thousandths(valid_range.minimum), _in_thousandths(step)
        rounded = minimum + -(-(wanted - minimum) // each) * each
        return Quantity(rounded * _NANO_PER_THOUSANDTH, step.format) if rounded <= MAX_INT64 else None
    notices_overflow = not rules.quirks.capacity_in_64_bits
    if notices_overflow and requested.nano > MAX_INT64 * NANO_PER_UNIT:
        return None
    # As in Kubernetes, minimum, step and request are each made whole units first, of 64 bits.
    minimum, each = _units(valid_range.minimum, rules), _units(step, rules)
    if not each:
        return None
    wanted = _units(requested, rules, compared_with=valid_range.minimum)
    steps, rest = _divide(wrap_int64(wanted - minimum), each)
    steps += bool(rest)
    if notices_overflow and minimum >= 0 and steps > _divide(MAX_INT64 - minimum, each)[0]:
        return None
    rounded = wrap_int64(minimum + each * steps)
    is_binary = rules.quirks.rounded_sizes_are_binary
    return Quantity.from_value(rounded, QuantityFormat.BINARY_SI if is_binary else step.format)


def _counts_thousandths(valid_range: CapacityRange, step: Quantity, rules: SchedulerRules) -> bool:
    """Whether sizes are counted in thousandths: the policy has whole thousandths only, and a step of at least one."""
    if not rules.features.fractional_capacity_range:
        return False
    numbers = (
        (valid_range.minimum, step) if valid_range.maximum is None else (valid_range.minimum, valid_range.maximum, step)
    )
    return all(_thousandths(number) is not None for number in numbers) and step.nano >= _NANO_PER_THOUSANDTH


def _thousandths(quantity: Quantity) -> int | None:
    """The quantity in thousandths; None if these are not whole, or beyond 64 bits."""
    count, rest = divmod(quantity.nano, _NANO_PER_THOUSANDTH)
    return None if rest or abs(count) > MAX_INT64 else count


def _in_thousandths(quantity: Quantity) -> int:
    return quantity.nano // _NANO_PER_THOUSANDTH


def _divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Quotient rounded toward zero, and rest."""
    quotient = abs(dividend) // abs(divisor)
    if (dividend < 0) != (divisor < 0):
        quotient = -quotient
    return quotient, dividend - quotient * divisor


def _units(quantity: Quantity, rules: SchedulerRules, *, compared_with: Quantity | None = None) -> int:
    """Whole units, in 64 bits."""
    units = quantity.value()
    if MIN_INT64 <= units <= MAX_INT64:
        return units
    if rules.quirks.high_bits_lost:
        return quantity.int64_value(compared_with=compared_with)
    return MAX_INT64 if units > 0 else MIN_INT64


def _is_recognized(default: Quantity, rules: SchedulerRules) -> bool:
    """Whether kube-scheduler knows a policy's default again: it compares addresses where Go keeps a big decimal."""
    if not rules.quirks.high_bits_lost or (default.is_integer and abs(default.nano) < _CERTAINLY_SMALL):
        return True
    return int64_scale(default.stored_text()) is not None


def _is_same(left: Quantity, right: Quantity) -> bool:
    """Equal in value, format and text, which is how Kubernetes recognises the default."""
    return left == right and left.format is right.format and str(left) == str(right)
