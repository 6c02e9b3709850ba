"""Choices that can meet on one device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_spawner.dra.model.consumable_capacity import Share
from dra_spawner.dra.model.devices import Device, DeviceId
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.drivers.registry import known_driver
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim

_Parameters = tuple[str, ...]
#: What is asked of a device's capacities.
_Capacity = frozenset[tuple[str, Quantity]]


def meeting_findings(choices: Sequence[Sequence[WantedClaim]], inventory: Inventory) -> Iterator[tuple[int, Finding]]:
    """Shares of one device with different parameters: most drivers prepare the first and refuse the second.

    Yields
    ------
    tuple[int, Finding]
        Which choice it is about, the later of the two.
    """
    if not any(_has_config(claim, inventory) for claims in choices for claim in claims):
        return
    devices: dict[tuple[str, ...], tuple[Device, ...]] = {}
    met: dict[DeviceId, dict[_Parameters, dict[_Capacity, Want]]] = {}
    for position, claims in enumerate(choices):
        told: set[str] = set()
        for claim in claims:
            for want in claim.wants:
                if inventory.device_class(want.devices.device_class_name) is None:
                    continue  # it gets no device at all
                expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
                if expressions not in devices:
                    found = inventory.all_candidates(expressions)
                    devices[expressions] = tuple(
                        device for device in found if device.is_shared and _wants_equal_parameters(device.id.driver)
                    )
                capacity = frozenset((want.devices.capacity_requests or {}).items())
                by_driver: dict[str, _Parameters] = {}
                for device in devices[expressions]:
                    driver = device.id.driver
                    parameters = by_driver.get(driver)
                    if parameters is None:
                        parameters = by_driver[driver] = _parameters(claim, want, driver, inventory)
                    there = met.setdefault(device.id, {})
                    for other in _others(there, parameters):
                        if other.path not in told and _both_fit(device, inventory, want, other):
                            told.add(other.path)
                            yield (
                                position,
                                rules.DIFFERENT_CONFIG.finding(
                                    want.path,
                                    f"can share device {device.id} with {other.path}, which has other parameters for "
                                    f"{driver}; drivers refuse the second of two such servers on a device",
                                ),
                            )
                    there.setdefault(parameters, {}).setdefault(capacity, want)


def _others(there: Mapping[_Parameters, Mapping[_Capacity, Want]], parameters: _Parameters) -> Iterator[Want]:
    """Earlier users of a device with other parameters."""
    if len(there) == 1 and parameters in there:
        return
    for other, wants in there.items():
        if other != parameters:
            yield from wants.values()


def _both_fit(device: Device, inventory: Inventory, *wants: Want) -> bool:
    """Whether both fit on a device; a request without a capacity may take all of it."""
    taken: dict[str, int] = {}
    for want in wants:
        share = inventory.share(device, want.devices.capacity_requests)
        if not isinstance(share, Share):
            return False
        for name, amount, all_of_it in share.checks:
            taken[name] = taken.get(name, 0) + amount
            if taken[name] > all_of_it:
                return False
    return True


def _wants_equal_parameters(driver: str) -> bool:
    """Whether claims on one device must carry equal parameters; of a driver that is not known, it is supposed."""
    known = known_driver(driver)
    return known is None or known.equal_sharers


def _has_config(claim: WantedClaim, inventory: Inventory) -> bool:
    if claim.claim.config:
        return True
    classes = (inventory.device_class(want.devices.device_class_name) for want in claim.wants)
    return any(each is not None and each.config for each in classes)


def _parameters(claim: WantedClaim, want: Want, driver: str, inventory: Inventory) -> _Parameters:
    """Parameters of a driver about a share, the class's first."""
    found = inventory.device_class(want.devices.device_class_name)
    of_class = [config.content for config in found.config] if found is not None else []
    of_claim = [
        config.content
        for config in claim.claim.config
        if not config.requests or want.request in config.requests or want.reference in config.requests
    ]
    return tuple(_canonical(content) for content in (*of_class, *of_claim) if _driver(content) == driver)


def _driver(content: Any) -> object:
    return (content.get("opaque") or {}).get("driver")


def _canonical(content: Any) -> str:
    return json.dumps(content["opaque"].get("parameters"), sort_keys=True)
