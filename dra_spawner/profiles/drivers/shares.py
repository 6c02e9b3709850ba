"""Whether a request takes a part of a device that others can have, too (consumable capacity, KEP-5075)."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner.dra.model.devices import Device
from dra_spawner.dra.quantity import Quantity
from dra_spawner.profiles.drivers.asked import AskedRequest
from dra_spawner.profiles.drivers.driver import Driver
from dra_spawner.profiles.drivers.published import Published

#: Capacities that only devices for several claims have.
_ONLY_SHARED = frozenset({"shares"})


def is_shared(driver: Driver, request: AskedRequest, cluster: Published) -> bool:
    """Whether a request gets, or may get, a device that several claims share."""
    if cluster.devices is None:
        return any(name in _ONLY_SHARED for name, _ in request.capacity)
    return _gets_one(driver, request, cluster, lambda device: device.is_shared)


def takes_a_part(driver: Driver, request: AskedRequest, cluster: Published) -> bool:
    """Whether something is left for others of the device that a request gets, or may get.

    Where it is not known what is published, asking for capacity counts as asking for a part.
    """
    if request.admin_access:
        return False
    if cluster.devices is None:
        return bool(request.capacity)
    asked = {name: Quantity.parse(amount) for name, amount in request.capacity}
    return _gets_one(driver, request, cluster, lambda device: device.is_shared and not _exhausts(asked, device))


def _gets_one(driver: Driver, request: AskedRequest, cluster: Published, what: Callable[[Device], bool]) -> bool:
    of_class = cluster.candidates_of_class(request.device_class, driver.name) or ()
    found = {what(device) for device in of_class}
    if len(found) < 2:
        return True in found  # whatever the request's own CEL selects of them; that costs more to find out
    return any(what(device) for device in cluster.candidates(request, driver.name) or ())


def _exhausts(asked: dict[str, Quantity], device: Device) -> bool:
    """Whether nothing is left of at least one capacity."""
    for name, capacity in device.description.capacity.items():
        default = capacity.policy.default if capacity.policy is not None else None
        amount = asked.get(name, default if default is not None else capacity.value)
        if amount >= capacity.value:
            return True
    return False
