"""What the use of a node's devices comes to for claims that pick one device.

Kinds of nodes differ in every amount that is in use. For claims that take a single device, only two things about each
device matter: whether it is taken, and whether there is room on it for what the request would consume. Nothing is taken
within the attempt before that device, so no amount can matter beyond that. Counters are left out on purpose: what
remains of them depends on all devices of a pool.
"""

from __future__ import annotations

from collections.abc import Hashable

from dra_spawner.dra.allocated_state import AllocatedState
from dra_spawner.dra.consumable_capacity import Share, shortage
from dra_spawner.dra.devices import Device
from dra_spawner.dra.features import Features
from dra_spawner.dra.requests import PreparedAlternative
from dra_spawner.simulator.claim_shapes import ClaimShape
from dra_spawner.simulator.pool_views import NodeView

__all__ = ["outline", "picks_one_device"]


def picks_one_device(shape: ClaimShape) -> bool:
    """Whether the claims take a single device, whichever alternative is chosen."""
    if len(shape.prepared) != 1 or len(shape.prepared[0].requests) != 1:
        return False
    return all(
        not alternative.takes_all and alternative.wanted.count == 1 for alternative in shape.prepared[0].requests[0]
    )


def outline(
    view: NodeView, shape: ClaimShape, allocated: AllocatedState, features: Features
) -> tuple[Hashable, ...] | None:
    """Equal for alike nodes on which one device can be picked alike; None where amounts may matter otherwise."""
    if view.common_devices or view.error or any(pool.counters for pool in view.pools):
        return None
    alternatives = shape.prepared[0].requests[0]
    return tuple(
        [
            (
                allocated.is_taken(device.id),
                not features.consumable_capacity
                or tuple([_has_room(device, alternative, allocated) for alternative in alternatives]),
            )
            for pool in view.pools
            for part in pool.slices
            for device in part.devices
        ]
    )


def _has_room(device: Device, alternative: PreparedAlternative, allocated: AllocatedState) -> bool:
    if device.defect:
        # It cannot be judged; that it has a defect is known of all alike nodes.
        return False
    share = alternative.share(device.description)
    return isinstance(share, Share) and shortage(share, allocated.consumed_capacity(device.id), None) is None
