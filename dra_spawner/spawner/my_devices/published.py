"""Devices as their drivers publish them, found by name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dra_spawner.dra.model.devices import Device, DeviceId, PoolId, ResourceSlice
from dra_spawner.spawner.devices.drain_notes import DrainNote


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device that may be published.

    Attributes
    ----------
    device
        None if it is not published, or if that is not known.
    is_gone
        Whether the whole pool is known, and the device is not in it.
    drain
        That an administrator takes it out of use; None if nobody does.
    """

    device: Device | None = None
    is_gone: bool = False
    drain: DrainNote | None = None


class PublishedDevices:
    """The devices of some slices; of each pool, those of its newest generation count."""

    def __init__(
        self, slices: Iterable[ResourceSlice], drains: Mapping[DeviceId, DrainNote] = MappingProxyType({})
    ) -> None:
        self._drains = drains
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
                    return PublishedDevice(device, drain=self._drains.get(name))
        # While a driver publishes anew, some slices of the pool may be missing.
        is_gone = bool(slices) and len(slices) == slices[0].resource_slice_count
        return PublishedDevice(is_gone=is_gone, drain=self._drains.get(name))
