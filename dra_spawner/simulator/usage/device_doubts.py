"""Doubts about the devices of a node: kube-scheduler gives devices away that no server surely gets.

- An allocated device that its driver does not publish any more. kube-scheduler counts it nowhere: what it takes of the
  pool's counters is free for the scheduler, and why it is gone is not known. So nothing of its pool is counted on.
- A device that is the same hardware as another one without shared counters (`same_hardware`). A whole device whose
  parts are published is not counted on; of two equal devices, the second is not while a claim holds the first.

kube-scheduler's own decisions do not change by doubts: `Snapshot` decides as it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from dra_spawner.common.counted_text import listed
from dra_spawner.dra.model.objects import AllocatedDevice, Device, DeviceId, PoolId, ResourceSlice
from dra_spawner.dra.model.same_hardware import same_hardware

#: Drivers that withdraw a device from their slices while a pod has it.
_WITHDRAWING: Final = frozenset({"dra.net"})
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class MissingDevice:
    """An allocated device that no slice publishes."""

    device: DeviceId
    claim: str
    """Namespace and name."""

    def __str__(self) -> str:
        return f"device {self.device.device} of claim {self.claim} is not published any more"


@dataclass(frozen=True, slots=True)
class DeviceDoubts:
    """Doubts about the devices of one node.

    Attributes
    ----------
    missing
        Allocated devices that are not published, and should be.
    withdrawn
        Numbers of devices that their drivers do not publish while pods have them, by pool.
    not_offered
        Devices that are the same hardware as others, and why they are not counted on.
    """

    missing: tuple[MissingDevice, ...] = ()
    withdrawn: Mapping[PoolId, int] = field(default_factory=dict)
    not_offered: Mapping[DeviceId, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.missing or self.not_offered)

    @property
    def pools(self) -> Mapping[PoolId, str]:
        """Pools of which nothing is counted on, and why."""
        of_pool = {pool: list(found) for pool, found in groupby(self.missing, lambda each: PoolId(*each.device[:2]))}
        return {pool: listed(found, _NAMED, separator="; ") for pool, found in of_pool.items()}

    def because(self, device: DeviceId) -> str:
        """Why a device is not counted on; empty if it is."""
        return self.not_offered.get(device) or self.pools.get(PoolId(device.driver, device.pool), "")


NO_DOUBTS: Final = DeviceDoubts()

Held = tuple[str, AllocatedDevice]
"""A claim by namespace and name, and a device of its allocation."""


def withdraws_held_devices(driver: str) -> bool:
    """Whether a driver withdraws a whole device from its slices while a pod has it, as DRANET does with interfaces."""
    return driver in _WITHDRAWING


def find_doubts(node_name: str, pools: Mapping[PoolId, Sequence[ResourceSlice]], held: Iterable[Held]) -> DeviceDoubts:
    """Doubts about one node.

    Parameters
    ----------
    pools
        Pools with devices of the node, with all their slices.
    held
        Allocated devices of these pools, and those that claims have on the node from pools without slices.
    """
    held = tuple(held)
    missing: list[MissingDevice] = []
    withdrawn: dict[PoolId, int] = {}
    for each, is_withdrawn in _unpublished(pools, held):
        pool_id = PoolId(each.device.driver, each.device.pool)
        if is_withdrawn:
            withdrawn[pool_id] = withdrawn.get(pool_id, 0) + 1
        else:
            missing.append(each)
    not_offered = _not_offered(node_name, pools, {part.id for _, part in held if not part.admin_access})
    if not (missing or withdrawn or not_offered):
        return NO_DOUBTS
    return DeviceDoubts(tuple(sorted(missing, key=lambda each: (each.device, each.claim))), withdrawn, not_offered)


def missing_devices(slices: Iterable[ResourceSlice], held: Iterable[Held]) -> tuple[MissingDevice, ...]:
    """All allocated devices that are not published, and should be.

    Parameters
    ----------
    slices
        All slices of the cluster.
    """
    pools: dict[PoolId, list[ResourceSlice]] = {}
    for item in slices:
        pools.setdefault(item.pool_id, []).append(item)
    found = (each for each, is_withdrawn in _unpublished(pools, held) if not is_withdrawn)
    return tuple(sorted(found, key=lambda each: (each.device, each.claim)))


def _unpublished(
    pools: Mapping[PoolId, Sequence[ResourceSlice]], held: Iterable[Held]
) -> Iterator[tuple[MissingDevice, bool]]:
    """Allocated devices that are not published, and whether that is usual for their drivers.

    While a pool is incomplete, it is not known what it lacks.
    """
    names: dict[PoolId, frozenset[str] | None] = {}
    for claim, part in held:
        if part.admin_access:
            continue
        pool_id = PoolId(part.id.driver, part.id.pool)
        slices = pools.get(pool_id, ())
        if pool_id not in names:
            names[pool_id] = _published(slices)
        published = names[pool_id]
        if published is None or part.id.device in published:
            continue
        is_whole = part.share_id is None and not any(item.shared_counters for item in slices)
        yield MissingDevice(part.id, claim), is_whole and withdraws_held_devices(part.id.driver)


def _published(slices: Sequence[ResourceSlice]) -> frozenset[str] | None:
    """Names of the devices of a pool; None while it is incomplete."""
    current = _newest(slices)
    if current and any(item.resource_slice_count != len(current) for item in current):
        return None
    return frozenset(name for item in current for name in item.device_names)


def _newest(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    newest = max((item.generation for item in slices), default=0)
    return [item for item in slices if item.generation == newest]


def _not_offered(
    node_name: str, pools: Mapping[PoolId, Sequence[ResourceSlice]], held: set[DeviceId]
) -> dict[DeviceId, str]:
    devices: list[Device] = [
        device
        for pool_id in sorted(pools)
        for item in _newest(pools[pool_id])
        for device in item.devices
        if node_name in (item.node_name, device.node_name)
    ]
    found: dict[DeviceId, str] = {}
    for pair in same_hardware(devices):
        device, other = pair.device.id, pair.other.id
        if pair.is_part and device not in held:
            found.setdefault(device, f"device {device.device} is published as its parts, too ({other.device})")
        elif device in held and other not in held:
            found.setdefault(other, f"device {other.device} is the same hardware as {device}, which is in use")
        elif other in held and device not in held:
            found.setdefault(device, f"device {device.device} is the same hardware as {other}, which is in use")
    return found
