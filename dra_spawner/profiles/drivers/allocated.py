"""What enforces the share that an allocation has of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import AttributeKind, Device, PoolId, ResourceSlice
from dra_spawner.profiles.compiler.claims import DeviceClaim
from dra_spawner.profiles.drivers.asked import AskedRequest, asked_claim
from dra_spawner.profiles.drivers.published import Published, own_attribute
from dra_spawner.profiles.drivers.registry import known_driver
from dra_spawner.profiles.drivers.vocabulary import ShareEnforcement
from dra_spawner.profiles.facts import ClusterFacts


def allocated_share(
    claim: JsonObject, result: Mapping[str, Any], device: Device | None, containers: int
) -> ShareEnforcement | None:
    """Return what enforces the share of one allocated device.

    Parameters
    ----------
    claim
        The allocated claim, from the API.
    result
        One of its ``status.allocation.devices.results``.
    device
        The device as its driver publishes it; None if it does not any more.
    containers
        Number of containers that use the claim.

    Returns
    -------
    ShareEnforcement or None
        None for whole devices, and for unknown drivers.
    """
    driver = known_driver(str(result["driver"]))
    if driver is None:
        return None
    asked = asked_claim(DeviceClaim("", (), spec={"devices": _asked_devices(claim)}))
    request = next((each for each in asked.requests if each.reference == result["request"]), None)
    if request is None:
        return None
    return driver.share(driver, replace(asked, containers=containers), _of_type(request, device), _only(device))


def _asked_devices(claim: JsonObject) -> JsonObject:
    """The requests of a claim, with the parameters that the driver got: those of the class come first."""
    devices = (claim.get("spec") or {}).get("devices") or {}
    allocated = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return {"requests": devices.get("requests") or [], "config": allocated.get("config") or []}


def _of_type(request: AskedRequest, device: Device | None) -> AskedRequest:
    """The request, with an expression that names the type of the device that it got."""
    attribute = own_attribute(device, "type") if device is not None else None
    if device is None or attribute is None or attribute.kind is not AttributeKind.STRING:
        return request
    # As in a class whose name says nothing.
    return replace(request, expressions=(f'device.attributes["{device.id.driver}"].type == "{attribute.value}"',))


def _only(device: Device | None) -> Published:
    """A cluster that has this one device."""
    if device is None:
        return Published(None)
    return Published(
        ClusterFacts(slices=(ResourceSlice("", PoolId(device.id.driver, device.id.pool), devices=(device,)),))
    )
