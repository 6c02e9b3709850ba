"""Choices that can meet on one device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dra_spawner.dra.devices import DeviceId
from dra_spawner.profiles.drivers.registry import known_driver
from dra_spawner.profiles.findings import Finding
from dra_spawner.profiles.lint import rules
from dra_spawner.profiles.lint.inventory import Inventory
from dra_spawner.profiles.lint.wants import Want, WantedClaim

__all__ = ["meeting_findings"]

_Parameters = tuple[str, ...]


def meeting_findings(choices: Sequence[Sequence[WantedClaim]], inventory: Inventory) -> Iterator[tuple[int, Finding]]:
    """Shares of one device with different parameters: most drivers prepare the first and refuse the second.

    Parameters
    ----------
    choices
        The claims of each choice.

    Yields
    ------
    tuple[int, Finding]
        Which choice it is about, the later of the two.
    """
    if not any(_has_config(claim, inventory) for claims in choices for claim in claims):
        return
    devices: dict[tuple[str, ...], tuple[DeviceId, ...]] = {}
    first: dict[DeviceId, tuple[_Parameters, str]] = {}
    for position, claims in enumerate(choices):
        told: set[str] = set()
        for claim in claims:
            for want in claim.wants:
                expressions = inventory.expressions(want.devices.device_class_name, want.selectors)
                if expressions not in devices:
                    found = inventory.all_candidates(expressions)
                    devices[expressions] = tuple(
                        device.id for device in found if device.is_shared and _wants_equal_parameters(device.id.driver)
                    )
                for device in devices[expressions]:
                    parameters = _parameters(claim, want, device.driver, inventory)
                    other, path = first.setdefault(device, (parameters, want.path))
                    if other != parameters and path not in told:
                        told.add(path)
                        yield (
                            position,
                            rules.DIFFERENT_CONFIG.finding(
                                want.path,
                                f"can share device {device} with {path}, which has other parameters for "
                                f"{device.driver}; drivers refuse the second of two such servers on a device",
                            ),
                        )


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
    """What a driver is told about a share, the class's word first."""
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
