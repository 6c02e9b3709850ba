"""Changes of a server's pod: limits, annotations, environment, and its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_spawner import names
from dra_spawner.profiles.intel_gas.annotations import Tiles, format_cards, format_tiles
from dra_spawner.profiles.intel_gas.choosing import ChosenCards
from dra_spawner.profiles.intel_gas.gas_language import ContainerGpuRequest, GpuRequest
from dra_spawner.profiles.intel_gas.names import (
    ALLOW_ANNOTATION,
    CARDS_ANNOTATION,
    DENY_ANNOTATION,
    HIERARCHY_ENV,
    MASK_ENV,
    MEMORY,
    MILLICORES,
    SAME_GPU_ANNOTATION,
    SINGLE_NUMA_ANNOTATION,
    TILES,
    TILES_ANNOTATION,
    TIME_ANNOTATION,
    XE_LINK_ANNOTATION,
    Hierarchy,
)


@dataclass(frozen=True, slots=True)
class PodChanges:
    """Additions to a pod.

    Attributes
    ----------
    limits
        Extended resources by container; requests are the same.
    environment
        Variables by container.
    node
        The only allowed node; empty for any.
    """

    limits: Mapping[str, Mapping[str, str]]
    annotations: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    node: str = ""


def plain_changes(request: GpuRequest) -> PodChanges:
    """Limits alone: the kubelet takes any card."""
    environment = {
        each.name: {HIERARCHY_ENV: str(request.hierarchy)} for each in request.containers if request.hierarchy
    }
    return PodChanges(
        limits={each.name: _limits(request, each) for each in request.containers}, environment=environment
    )


def changes_for_gas(request: GpuRequest) -> PodChanges:
    """Limits, and the annotations by which GAS chooses cards."""
    plain = plain_changes(request)
    return PodChanges(plain.limits, _gas_annotations(request), plain.environment)


def changes_with_cards(
    request: GpuRequest,
    chosen: ChosenCards,
    containers: Sequence[str],
    hierarchies: Mapping[str, str],
    tiles_per_card: int,
    time: int,
) -> PodChanges:
    """Everything that GAS would write, the mask, and the node, for cards that the hub chose.

    Parameters
    ----------
    containers
        Names of the pod's containers, in order.
    hierarchies
        Present ``ZE_FLAT_DEVICE_HIERARCHY`` of containers.
    tiles_per_card
        On the chosen node.
    time
        Nanoseconds since 1970.
    """
    plain = plain_changes(request)
    annotations = {
        **_gas_annotations(request),
        TIME_ANNOTATION: str(time),
        names.INTEL_GAS: str(time),
        CARDS_ANNOTATION: format_cards(each.cards for each in chosen.containers),
    }
    if any(each.tiles for each in chosen.containers):
        annotations[TILES_ANNOTATION] = format_tiles(each.tiles for each in chosen.containers)
    environment = {name: dict(variables) for name, variables in plain.environment.items()}
    for name, cards in zip(containers, chosen.containers, strict=True):
        hierarchy = request.hierarchy or hierarchy_of(hierarchies.get(name))
        mask = mask_of_tiles(cards.tiles, hierarchy, tiles_per_card)
        if mask:
            environment.setdefault(name, {})[MASK_ENV] = mask
    return PodChanges(plain.limits, annotations, environment, chosen.node)


# `ZE_AFFINITY_MASK`, which of its visible tiles a container uses: Level Zero numbers the cards of a container from 0 in
# their order, without regard to names. With COMPOSITE a tile is ``card.tile``; with FLAT and COMBINED tiles are counted
# through all cards. A program may unset the mask.


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


def _limits(request: GpuRequest, container: ContainerGpuRequest) -> dict[str, str]:
    """Limits of a container: sums over its cards, as the API has them."""
    need, count = container.need, container.count
    amounts = {
        request.resource.full_name: count,
        MILLICORES: need.millicores * count,
        MEMORY: need.memory_bytes * count,
        TILES: need.tiles * count,
    }
    return {name: str(amount) for name, amount in amounts.items() if amount}


def _gas_annotations(request: GpuRequest) -> dict[str, str]:
    """Annotations that users write for GAS."""
    lists = {ALLOW_ANNOTATION: request.allow, DENY_ANNOTATION: request.deny, SAME_GPU_ANNOTATION: request.same_gpu}
    flags = {XE_LINK_ANNOTATION: request.xe_link, SINGLE_NUMA_ANNOTATION: request.single_numa}
    annotations = {name: ",".join(values) for name, values in lists.items() if values}
    return annotations | {name: "true" for name, value in flags.items() if value}
