"""``ZE_AFFINITY_MASK`` which of its visible tiles a container uses.

Level Zero numbers the cards of a container from 0 in their order, without regard to names. With COMPOSITE a tile is
``card.tile``; with FLAT and COMBINED tiles are counted through all cards. A program may unset the mask.
"""

from __future__ import annotations

from dra_spawner.profiles.intel_gas.annotations import Tiles
from dra_spawner.profiles.intel_gas.names import Hierarchy


def hierarchy_of(value: str | None) -> Hierarchy:
    """A container's ``ZE_FLAT_DEVICE_HIERARCHY`` as the plugin reads it: FLAT for unknown values."""
    return Hierarchy(value) if value in tuple(Hierarchy) else Hierarchy.FLAT


def mask_of_tiles(tiles: Tiles, hierarchy: Hierarchy, tiles_per_card: int) -> str:
    """The mask for a container's tiles; empty with one tile a card, where there is no choice."""
    if tiles_per_card <= 1:
        return ""
    if hierarchy is Hierarchy.COMPOSITE:
        return ",".join(f"{position}.{tile}" for position, (_, numbers) in enumerate(tiles) for tile in numbers)
    return ",".join(
        str(position * tiles_per_card + tile) for position, (_, numbers) in enumerate(tiles) for tile in numbers
    )
