"""Devices as their drivers publish them, found by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dra_spawner.dra.model.devices import Device, DeviceId, PoolId, ResourceSlice

__all__ = ["PublishedDevice", "PublishedDevices"]


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device that may be published.

    Attributes
    ----------
    device
        None if it is not published, or if that is not known.
    is_gone
        Whether the whole pool is known, and the device is not in it.
    """

    device: Device | None = None
    is_gone: bool = False


class PublishedDevices:
    """The devices of some slices; of each pool, those of its newest generation count."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._pools: dict[PoolId, list[ResourceSlice]] = {}
        for each in slices:
            pool = self._pools.setdefault(each.pool_id, [])
            if pool and each.generation > pool[0].generation:
                pool.clear()
            if not pool or each.generation == pool[0].generation:
                pool.append(each)

    def has_pool(self, pool: PoolId) -> bool:
        """Whether there is a slice of this pool."""
        return pool in self._pools

    def find(self, name: DeviceId) -> PublishedDevice:
        """Return a device by its name."""
        slices = self._pools.get(PoolId(name.driver, name.pool), [])
        for each in slices:
            for device in each.devices:
                if device.id == name:
                    return PublishedDevice(device)
        # While a driver publishes anew, some slices of the pool may be missing.
        return PublishedDevice(is_gone=bool(slices) and len(slices) == slices[0].resource_slice_count)
