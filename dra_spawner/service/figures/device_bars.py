"""A node's devices as bars: which part of each is used by whom, and which part is free or blocked.

A bar is a device that draws on no counters, or a counter set with all its partitions (the hardware behind them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

from dra_spawner.dra.model.objects import AllocatedDevice, Device, DeviceId
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.usage.weighted_utilization import DeviceUse

_ZERO: Final = Fraction(0)
_ONE: Final = Fraction(1)
_PRODUCT_ATTRIBUTES: Final = ("productname", "model", "product", "profile")
_LONGEST_PRODUCT: Final = 60


class HolderKind(StrEnum):
    """Who has a claim."""

    USER = "user"
    """A user's server, or another pod that is no placeholder."""
    PLACEHOLDER = "placeholder"


@dataclass(frozen=True, slots=True)
class Part:
    """A claim's part of a device.

    Attributes
    ----------
    share
        Part of the bar, from 0 to 1.
    partition
        Name of the partition; empty for a device of its own.
    """

    kind: HolderKind
    claim: ObjectKey
    share: Fraction
    amounts: Mapping[str, str]
    partition: str = ""
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A device, or the partitions of a counter set.

    Attributes
    ----------
    blocked
        The part that is left and of which no partition can be had.
    free_partitions
        Number of free partitions by product.
    is_boundless
        Whether any number of claims may share it.
    closed
        Why what is left is for no new server, as `device_bars` is told; empty for no reason.
    """

    driver: str
    pool: str
    name: str
    product: str
    parts: tuple[Part, ...]
    blocked: Fraction = _ZERO
    free_partitions: Mapping[str, int] | None = None
    is_boundless: bool = False
    closed: str = ""

    @property
    def used(self) -> Fraction:
        """The part that claims have."""
        return sum((each.share for each in self.parts), _ZERO)


Holder = tuple[ObjectKey, AllocatedDevice]


def device_bars(
    uses: Sequence[DeviceUse],
    holders: Callable[[DeviceId], Iterable[Holder]],
    kind_of: Callable[[ObjectKey], HolderKind],
    closed: Callable[[Device], str],
) -> list[Bar]:
    """The bars of a node, in the order of the devices.

    Parameters
    ----------
    uses
        All devices of the node.
    holders
        The claims of a device.
    kind_of
        Who has a claim.
    closed
        Why no new server gets a device; empty for no reason.
    """
    groups: dict[tuple[str, str, str, str], list[DeviceUse]] = {}
    for use in uses:
        device = use.device
        drawn = sorted({counter.counter_set for counter, _ in device.consumes_counters})
        for set_name in drawn:
            groups.setdefault((device.id.driver, device.id.pool, set_name, ""), []).append(use)
        if not drawn:
            groups[device.id.driver, device.id.pool, "", device.id.device] = [use]
    bars = []
    for (_, _, set_name, _), members in groups.items():
        if set_name:
            bars.append(_counter_bar(set_name, members, holders, kind_of, closed))
        else:
            bars.append(_device_bar(members[0], holders, kind_of, closed(members[0].device)))
    return bars


def product_of(device: Device) -> str:
    """The product that the driver publishes; otherwise the driver."""
    by_id = {name.rpartition("/")[2].lower(): each.value for name, each in device.description.attributes.items()}
    found = next((str(by_id[each]) for each in _PRODUCT_ATTRIBUTES if by_id.get(each)), device.id.driver)
    return found[:_LONGEST_PRODUCT]


def _device_bar(
    use: DeviceUse,
    holders: Callable[[DeviceId], Iterable[Holder]],
    kind_of: Callable[[ObjectKey], HolderKind],
    closed: str,
) -> Bar:
    device = use.device
    parts = _parts(use, _ONE, holders, kind_of)
    is_boundless = device.is_shared and not any(each.value.nano for each in device.description.capacity.values())
    if is_boundless and parts:
        # Nobody has a part of it, so that each claim is shown as wide as what is left.
        share = Fraction(1, len(parts) + 1)
        parts = tuple(replace(each, share=share) for each in parts)
    # What is left of a device that no server gets; or a device that is the same hardware as others, and not offered.
    left = _ONE - sum((each.share for each in parts), _ZERO)
    blocked = max(left, _ZERO) if closed or (use.is_blocked and not parts) else _ZERO
    return Bar(
        device.id.driver,
        device.id.pool,
        device.id.device,
        product_of(device),
        parts,
        blocked,
        is_boundless=is_boundless,
        closed=closed,
    )


def _counter_bar(
    set_name: str,
    members: Sequence[DeviceUse],
    holders: Callable[[DeviceId], Iterable[Holder]],
    kind_of: Callable[[ObjectKey], HolderKind],
    closed: Callable[[Device], str],
) -> Bar:
    """The bar of a counter set: it is as full as its fullest counter."""
    taken: dict[str, Fraction] = {}
    drawn: list[tuple[DeviceUse, Fraction]] = []
    for use in members:
        of_set = {name: part for each, name, part in use.counters if each == set_name}
        drawn.append((use, max(of_set.values(), default=_ZERO)))
        for name, part in of_set.items():
            taken[name] = taken.get(name, _ZERO) + part
    full = min(max(taken.values(), default=_ZERO), _ONE)
    total = sum((part for _, part in drawn), _ZERO)
    scale = full / total if total else _ZERO
    parts = tuple(
        replace(each, partition=use.device.id.device)
        for use, part in drawn
        for each in _parts(use, part * scale, holders, kind_of)
    )
    held = {each.partition for each in parts if not each.admin_access}
    left = [use for use in members if not use.use and not use.is_blocked and use.device.id.device not in held]
    reasons = [closed(use.device) for use in left]
    free = [use for use, reason in zip(left, reasons, strict=True) if not reason]
    largest = max(members, key=lambda use: (_drawn(use.device, set_name), -len(use.device.id.device))).device
    return Bar(
        largest.id.driver,
        largest.id.pool,
        largest.id.device,
        product_of(largest),
        parts,
        blocked=_ZERO if free else _ONE - full,
        free_partitions=dict(sorted(Counter(_partition_name(use.device) for use in free).items())),
        closed=next(iter(reasons), "") if not free else "",
    )


def _partition_name(device: Device) -> str:
    profile = device.description.attributes.get("profile")
    return str(profile.value)[:_LONGEST_PRODUCT] if profile is not None else product_of(device)


def _drawn(device: Device, set_name: str) -> int:
    return sum(amount for counter, amount in device.consumes_counters if counter.counter_set == set_name)


def _parts(
    use: DeviceUse,
    width: Fraction,
    holders: Callable[[DeviceId], Iterable[Holder]],
    kind_of: Callable[[ObjectKey], HolderKind],
) -> tuple[Part, ...]:
    """The claims' parts of a device, which together are as wide as its use."""
    totals = {name: each.value.nano for name, each in use.device.description.capacity.items() if each.value.nano > 0}
    found = sorted(holders(use.device.id), key=lambda each: each[0])
    sizes = [_ZERO if part.admin_access else _size(part, totals) for _, part in found]
    whole = sum(sizes, _ZERO)
    used = (use.use if not use.counters else _ONE) * width
    return tuple(
        Part(
            kind_of(key),
            key,
            size / whole * used if whole else _ZERO,
            {name: str(amount) for name, amount in sorted((part.consumed_capacity or {}).items())},
            admin_access=part.admin_access,
        )
        for (key, part), size in zip(found, sizes, strict=True)
    )


def _size(part: AllocatedDevice, totals: Mapping[str, int]) -> Fraction:
    if part.consumed_capacity is None:
        return _ONE
    shares = [
        Fraction(max(amount.nano, 0), totals[name]) for name, amount in part.consumed_capacity.items() if name in totals
    ]
    return max(shares, default=_ONE) or Fraction(1, 1000)
