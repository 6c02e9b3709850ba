"""The node's GPU plugin, as far as it reads annotations of the hub: device ids and mask of each GPU container."""

from __future__ import annotations

from collections.abc import Sequence

from dra_spawner.profiles.intel_gas.annotations import AnnotationError, filled_section, parse_card_tiles
from dra_spawner.profiles.intel_gas.names import CARDS_ANNOTATION, HIERARCHY_ENV, MASK_ENV, TILES_ANNOTATION
from dra_spawner.profiles.intel_gas.pod_changes import hierarchy_of, mask_of_tiles
from dra_spawner.profiles.intel_gas.pods import PodObject, containers_of


class Plugin:
    """Answers of its resource manager to the kubelet for one pod."""

    def __init__(self, pod: PodObject, tiles_per_card: int) -> None:
        self._pod = pod
        self._annotations = pod["metadata"]["annotations"]
        self._tiles_per_card = tiles_per_card

    def preferred(self, size: int, available: Sequence[str], index: int) -> tuple[str, ...]:
        """Ids such as ``card0-1`` for GPU container number `index`."""
        found = filled_section(self._annotations[CARDS_ANNOTATION].split("|"), index)
        assert found is not None
        cards = found[1].split(",")
        assert len(cards) == size
        by_card: dict[str, list[str]] = {}
        for device in available:
            by_card.setdefault(device.partition("-")[0], []).append(device)
        return tuple(by_card[card].pop(0) for card in cards)

    def environment(self, index: int) -> dict[str, str]:
        """Variables that it adds to GPU container number `index`."""
        hierarchies = [
            next((each.get("value") for each in container.get("env") or () if each.get("name") == HIERARCHY_ENV), None)
            for container in containers_of(self._pod)
        ]
        tiles = self._annotations.get(TILES_ANNOTATION, "")
        mask = affinity_mask(tiles, index, hierarchies, self._tiles_per_card)
        return {MASK_ENV: mask} if mask else {}


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
