"""Shares: whether devices give them, and what they really take."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from dra_spawner.dra.model.consumable_capacity import (
    Share,
    ShareError,
    ShareRefused,
    capacity_of,
    consumes_too_little,
    shortage,
)
from dra_spawner.dra.model.devices import Device
from dra_spawner.dra.quantity import NANO_PER_UNIT, Quantity, QuantityFormat
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want

#: How much of a device may be missing for one more share, as a part of the device.
_NEARLY = 0.05
_UNIT = 2**20 * NANO_PER_UNIT


def capacity_findings(want: Want, inventory: Inventory, certain: Level) -> Iterator[Finding]:
    """Findings about the capacity of one request.

    Parameters
    ----------
    certain
        Level of what no present device can do.
    """
    expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
    devices = inventory.candidates(expressions).devices
    if not devices or want.devices.admin_access:
        return
    asked = want.devices.capacity_requests or {}
    unknown = [name for name in asked if all(name not in device.description.capacity for device in devices)]
    for name in unknown:
        yield rules.UNKNOWN_CAPACITY.finding(want.capacity_path(name), _unknown(name, devices), certain)
    if unknown:
        return
    serving: list[tuple[Device, Share]] = []
    refused: list[tuple[str, Quantity, Quantity]] = []
    for device in devices:
        share = inventory.share(device, asked)
        if isinstance(share, ShareRefused):
            if not share.is_unknown:
                refused.append((share.capacity, share.needed, _most(device, share.capacity)))
        elif isinstance(share, ShareError):
            needed = asked.get(share.capacity, capacity_of(device.description, share.capacity).value)
            refused.append((share.capacity, needed, _most(device, share.capacity)))
        elif (overflowing := _overflowing(share, asked)) is not None:
            refused.append((overflowing, asked[overflowing], _most(device, overflowing)))
        elif (missing := shortage(share, None, None)) is not None:
            unit = capacity_of(device.description, missing[0]).value
            refused.append((missing[0], Quantity(missing[2], unit.format), unit))
        else:
            serving.append((device, share))
    if serving:
        yield from _of_shares(want, serving, inventory)
    elif refused:
        name, needed, most = max(refused, key=lambda item: item[2])
        path = want.capacity_path(name) if name in asked else want.path
        yield rules.SHARE_TOO_LARGE.finding(
            path, f"{needed} of {name} is more than any device gives; most is {most}", certain
        )


def _overflowing(share: Share, asked: Mapping[str, Quantity]) -> str | None:
    """A capacity of which less would be consumed than is asked for: kube-scheduler counts in 64 bits."""
    return next((name for name, amount in share.consumed if consumes_too_little(asked.get(name, amount), amount)), None)


def _most(device: Device, name: str) -> Quantity:
    """The largest share of a capacity."""
    capacity = capacity_of(device.description, name)
    policy = capacity.policy
    if policy is not None and policy.valid_range is not None and policy.valid_range.maximum is not None:
        return policy.valid_range.maximum
    return max(policy.valid_values) if policy is not None and policy.valid_values else capacity.value


def _unknown(name: str, devices: Sequence[Device]) -> str:
    there = sorted({known for device in devices for known in device.description.capacity})
    if not there:
        return f"no device in question has a capacity {name}, or any other; the pod would wait without a word"
    short = name.rpartition("/")[2]
    near = [known for known in there if known.rpartition("/")[2] == short]
    near = near or difflib.get_close_matches(name, there, 3, 0.5) or there
    return f"no device in question has a capacity {name}; names count as published: {', '.join(near)}"


def _of_shares(want: Want, serving: Sequence[tuple[Device, Share]], inventory: Inventory) -> Iterator[Finding]:
    asked = want.devices.capacity_requests or {}
    shared = [(device, dict(share.consumed)) for device, share in serving if device.is_shared]
    if not shared:
        if asked:
            yield rules.WHOLE_DEVICE.finding(
                want.path_of("capacity"),
                "these devices cannot be shared: each one with at least so much is taken as a whole",
            )
        return
    for name, amount in asked.items():
        taken = sorted({consumed[name] for _, consumed in shared})
        if amount not in taken:
            amounts = " or ".join(map(str, taken))
            yield rules.SHARE_ROUNDED.finding(
                want.capacity_path(name), f"{amounts} of {name} will be reserved: devices round {amount} up"
            )
        yield from _remainder(want, name, shared, inventory)
    first, _ = shared[0]
    for name in first.description.capacity:
        if name not in asked and all(_takes_all(device, consumed, name) for device, consumed in shared):
            example = first.description.capacity[name].value
            yield rules.WHOLE_CAPACITY.finding(
                want.path_of("capacity") if asked else want.path,
                f"nothing is said of capacity {name}, so all of it is taken ({example} of {first.id}) and no other "
                "server gets a share of the device",
            )


def _remainder(
    want: Want, name: str, shared: Sequence[tuple[Device, Mapping[str, Quantity]]], inventory: Inventory
) -> Iterator[Finding]:
    """A share that is a little too large for one more: "80 GB" of memory are seldom 80Gi."""
    asked = want.devices.capacity_requests or {}
    for device, consumed in shared:
        there, taken = device.description.capacity[name].value, consumed[name]
        if taken.nano <= 0 or there.nano % taken.nano == 0:
            continue
        fitting = there.nano // taken.nano
        more = fitting + 1
        if fitting == 0 or more * taken.nano - there.nano > there.nano * _NEARLY:
            continue
        least_unit = _UNIT if there.nano >= more * _UNIT else NANO_PER_UNIT
        smaller = Quantity(there.nano // more // least_unit * least_unit, QuantityFormat.BINARY_SI)
        share = inventory.share(device, {**asked, name: smaller})
        if isinstance(share, ShareRefused | ShareError) or dict(share.consumed)[name].nano * more > there.nano:
            continue
        rest = Quantity(there.nano - fitting * taken.nano, QuantityFormat.BINARY_SI)
        yield rules.SHARE_REMAINDER.finding(
            want.capacity_path(name),
            f"{device.id} has {there} of {name}: {fitting} such share{'s fit' if fitting > 1 else ' fits'}, and {rest} "
            f"are left; with {smaller} each {more} fit",
        )
        return


def _takes_all(device: Device, consumed: dict[str, Quantity], name: str) -> bool:
    capacity = device.description.capacity.get(name)
    return capacity is not None and capacity.value.nano > 0 and consumed[name] == capacity.value
