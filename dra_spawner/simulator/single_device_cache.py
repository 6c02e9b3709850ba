"""What the use of a node's devices comes to for claims that pick one device.

Kinds of nodes differ in every amount that is in use. For claims that take a single device, only two things about each
device matter: whether it is taken, and whether there is room on it for what the request would consume. Nothing is taken
within the attempt before that device, so no amount can matter beyond that. Counters are left out on purpose: what
remains of them depends on all devices of a pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dra_spawner.dra.allocated_state import DeviceUse, consumed_in
from dra_spawner.dra.consumable_capacity import Share, ShareRefused, shortage
from dra_spawner.dra.devices import Device
from dra_spawner.dra.features import Features
from dra_spawner.simulator.claim_shapes import ClaimShape
from dra_spawner.simulator.class_verdicts import ClassVerdict
from dra_spawner.simulator.pool_views import NodeView

__all__ = ["OutlineKey", "Outlines"]

_MOST_OUTLINES: Final = 10_000
_MOST_STRUCTURES: Final = 10_000
_MOST_USES: Final = 10_000

OutlineKey = tuple[int, tuple[tuple[bool, ...], ...]]
"""Structure of a node; of each device whether it is taken, and for each alternative whether there is room for it."""


class Outlines:
    """Verdicts on claims of one shape by outlines of nodes.

    Parameters
    ----------
    shape
        Must pick one device, see `picks_one_device`.
    """

    def __init__(self, shape: ClaimShape, features: Features) -> None:
        self.verdicts: dict[OutlineKey, ClassVerdict] = {}
        self._alternatives = shape.prepared[0].requests[0]
        self._with_capacity = features.consumable_capacity
        self._rooms: dict[tuple[Share | ShareRefused | None, ...], _Rooms] = {}
        self._structures: dict[int, tuple[_Rooms, ...] | None] = {}

    @staticmethod
    def picks_one_device(shape: ClaimShape) -> bool:
        """Whether the claims take a single device, whichever alternative is chosen."""
        if len(shape.prepared) != 1 or len(shape.prepared[0].requests) != 1:
            return False
        return all(
            not alternative.takes_all and alternative.wanted.count == 1 for alternative in shape.prepared[0].requests[0]
        )

    def key(self, structure: int, view: NodeView, uses: Sequence[DeviceUse]) -> OutlineKey | None:
        """Equal for nodes on which one device can be picked alike; None where amounts may matter otherwise.

        Parameters
        ----------
        structure
            Number that the node shares with others whose devices look alike.
        view
            What the node, or one with the same structure, sees.
        uses
            Of its local devices.
        """
        if structure not in self._structures:
            if len(self._structures) >= _MOST_STRUCTURES:
                self._structures.clear()
            self._structures[structure] = self._rooms_of(view)
        rooms = self._structures[structure]
        if rooms is None:
            return None
        return structure, tuple([known[use] for known, use in zip(rooms, uses, strict=True)])

    def keep(self, key: OutlineKey, verdict: ClassVerdict) -> None:
        """Remember a verdict."""
        if len(self.verdicts) >= _MOST_OUTLINES:
            self.verdicts.clear()
        self.verdicts[key] = verdict

    def _rooms_of(self, view: NodeView) -> tuple[_Rooms, ...] | None:
        if view.common_devices or view.error or any(pool.counters for pool in view.pools):
            return None
        return tuple(
            [
                self._rooms_on(device)
                for pool in view.pools
                for part in (*pool.slices, *pool.other_slices)
                for device in part.devices
            ]
        )

    def _rooms_on(self, device: Device) -> _Rooms:
        if not self._with_capacity or device.defect:
            # A defect cannot be judged, and all alike nodes have it.
            shares: tuple[Share | ShareRefused | None, ...] = ()
        else:
            shares = tuple([alternative.share(device.description) for alternative in self._alternatives])
        rooms = self._rooms.get(shares)
        if rooms is None:
            rooms = self._rooms[shares] = _Rooms(shares)
        return rooms


class _Rooms(dict[DeviceUse, tuple[bool, ...]]):
    """By the use of a device, whether it is taken, and whether each of these shares fits on it."""

    def __init__(self, shares: tuple[Share | ShareRefused | None, ...]) -> None:
        super().__init__()
        self._shares = shares

    def __missing__(self, use: DeviceUse) -> tuple[bool, ...]:
        if len(self) >= _MOST_USES:
            self.clear()
        is_taken, consumed = consumed_in(use)
        rooms = [isinstance(share, Share) and shortage(share, consumed, None) is None for share in self._shares]
        known = self[use] = (is_taken, *rooms)
        return known
