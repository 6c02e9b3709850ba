"""Verdicts on claims that ask for a single device, shared by node classes that differ only in amounts.

Node classes differ in every amount that is in use. For a claim that takes a single device only two facts about each
device matter: whether it is taken, and whether the request's share of it fits. No other device is taken in the same
attempt, so no other amount can matter. Nodes with counters are excluded, as the remaining counters depend on all
devices of a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dra_spawner.dra.allocation.allocated_state import DeviceUse, consumed_in
from dra_spawner.dra.model.consumable_capacity import Share, ShareError, ShareRefused, shortage
from dra_spawner.dra.model.devices import Device
from dra_spawner.dra.scheduler_rules import SchedulerRules
from dra_spawner.simulator.devices.caching import Cache
from dra_spawner.simulator.devices.claim_shapes import ClaimShape
from dra_spawner.simulator.devices.class_verdicts import ClassVerdict
from dra_spawner.simulator.devices.pool_views import NodeView

_MAX_STRUCTURES: Final = 10_000
_MAX_USES: Final = 10_000

SingleDeviceKey = tuple[int, tuple[tuple[bool, ...], ...]]
"""Structure of a node; for each device whether it is taken, and for each alternative whether its share fits."""


class SingleDeviceCache:
    """Verdicts on claims of one shape.

    Parameters
    ----------
    shape
        Must pick one device, see `picks_one_device`.
    size
        Maximum number of verdicts.
    """

    def __init__(self, shape: ClaimShape, rules: SchedulerRules, size: int) -> None:
        self.verdicts: Cache[SingleDeviceKey, ClassVerdict] = Cache(size)
        self._alternatives = shape.prepared[0].requests[0]
        self._with_capacity = rules.features.consumable_capacity
        self._shares_count = not rules.quirks.shares_of_whole_devices_ignored
        self._by_shares: dict[tuple[bool, tuple[Share | ShareRefused | ShareError, ...]], _FitsByUse] = {}
        self._structures: Cache[int, tuple[_FitsByUse, ...] | None] = Cache(_MAX_STRUCTURES)

    @staticmethod
    def picks_one_device(shape: ClaimShape) -> bool:
        """Whether the claims take a single device, whichever alternative is chosen."""
        if len(shape.prepared) != 1 or len(shape.prepared[0].requests) != 1:
            return False
        return all(
            not alternative.takes_all and alternative.wanted.count == 1 for alternative in shape.prepared[0].requests[0]
        )

    def key(self, structure: int, view: NodeView, uses: Sequence[DeviceUse]) -> SingleDeviceKey | None:
        """Key of a node's verdict.

        Parameters
        ----------
        structure
            Number of the node's structure, see `NodeClass`.
        view
            View of the node, or of a node with the same structure.
        uses
            Use of its local devices.

        Returns
        -------
        tuple or None
            Equal for nodes with the same verdict; None if other amounts may matter.
        """
        if structure in self._structures:
            devices = self._structures[structure]
        else:
            devices = self._structures.keep(structure, self._devices_of(view))
        if devices is None:
            return None
        return structure, tuple([device[use] for device, use in zip(devices, uses, strict=True)])

    def _devices_of(self, view: NodeView) -> tuple[_FitsByUse, ...] | None:
        if view.common_devices or view.error or any(pool.counters for pool in view.pools):
            return None
        return tuple(
            [
                self._fits_on(device)
                for pool in view.pools
                for part in (*pool.slices, *pool.other_slices)
                for device in part.devices
            ]
        )

    def _fits_on(self, device: Device) -> _FitsByUse:
        if not self._with_capacity or device.defect:
            # The shares of a defective device are unknown; all nodes of the structure have the same defect.
            shares: tuple[Share | ShareRefused | ShareError, ...] = ()
        else:
            shares = tuple([alternative.share(device.description) for alternative in self._alternatives])
        is_whole = self._shares_count and not device.is_shared
        fits = self._by_shares.get((is_whole, shares))
        if fits is None:
            fits = self._by_shares[is_whole, shares] = _FitsByUse(shares, is_whole)
        return fits


class _FitsByUse(dict[DeviceUse, tuple[bool, ...]]):
    """By the use of a device: whether it is taken, and whether each of these shares fits on it."""

    def __init__(self, shares: tuple[Share | ShareRefused | ShareError, ...], is_whole: bool) -> None:
        super().__init__()
        self._is_whole = is_whole
        self._shares = shares

    def __missing__(self, use: DeviceUse) -> tuple[bool, ...]:
        if len(self) >= _MAX_USES:
            self.clear()
        is_taken, consumed = consumed_in(use)
        fits = [isinstance(share, Share) and shortage(share, consumed, None) is None for share in self._shares]
        known = self[use] = (is_taken or (self._is_whole and use is not None), *fits)
        return known
