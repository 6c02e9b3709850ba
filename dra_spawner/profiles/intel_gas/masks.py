"""``ZE_AFFINITY_MASK``: which of its visible tiles a container uses.

Level Zero numbers the cards of a container from 0 in their order, without regard to names. With COMPOSITE a tile is
``card.tile``; with FLAT and COMBINED tiles are counted through all cards. A program may unset the mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra_spawner.profiles.intel_gas.annotations import AnnotationError, Tiles, filled_section, parse_card_tiles
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


def affinity_mask(annotation: str, index: int, hierarchies: Sequence[str | None], tiles_per_card: int) -> str:
    """The mask that the plugin sets for a GPU container.

    Parameters
    ----------
    annotation
        ``gas-container-tiles`` of the pod.
    index
        Number of the container among those with GPUs.
    hierarchies
        ``ZE_FLAT_DEVICE_HIERARCHY`` of each container of the pod, with or without GPUs.

    Returns
    -------
    str
        Empty if the annotation is invalid or has no section for the container.
    """
    found = filled_section(annotation.split("|"), index)
    if found is None:
        return ""
    position, section = found
    try:
        tiles = parse_card_tiles(section)
    except AnnotationError:
        return ""
    return mask_of_tiles(
        tiles, hierarchy_of(hierarchies[position] if position < len(hierarchies) else None), tiles_per_card
    )
