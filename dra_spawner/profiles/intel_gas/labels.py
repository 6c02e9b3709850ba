"""A node's Intel GPUs, from its labels and allocatable resources.

An invalid label is ignored with a warning; the others stay in use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.dra.quantity import Quantity, QuantityError
from dra_spawner.profiles.intel_gas.annotations import AnnotationError, card_number
from dra_spawner.profiles.intel_gas.ledger import CardCapacity
from dra_spawner.profiles.intel_gas.names import GPU_PREFIX, MEMORY, MILLICORES, TILES, GpuResource

#: A tile of a card.
CardTile = tuple[str, int]

_CONTINUED = "Z"
_POLICY_LABEL = re.compile(r"telemetry\.aware\.scheduling\.[^/]+/(gas-.+)")
_CARD_TILE = re.compile(r"(card\d{1,5})_gt(\d{1,5})", re.ASCII)
_XE_LINK = re.compile(r"(\d{1,5})\.(\d{1,5})-(\d{1,5})\.(\d{1,5})", re.ASCII)
_PCI_GROUP = "PCI_GROUP"


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The Intel GPUs of a node.

    Attributes
    ----------
    cards
        In the order of their numbers.
    capacity
        Of each card by resource: the node's amount divided evenly, as its cards are assumed to be equal.
    numa_groups
        Cards of each NUMA node; empty if not known.
    xe_links
        Pairs of linked tiles.
    disabled_cards, disabled_tiles
        Not to be used for further servers, by telemetry.
    preferred_card, preferred_tiles
        To be used first, by telemetry.
    warnings
        Invalid labels.
    """

    node: str
    cards: tuple[str, ...]
    capacity: Mapping[GpuResource, CardCapacity]
    numa_groups: tuple[tuple[str, ...], ...] = ()
    xe_links: tuple[tuple[CardTile, CardTile], ...] = ()
    disabled_cards: frozenset[str] = frozenset()
    disabled_tiles: frozenset[CardTile] = frozenset()
    preferred_card: str = ""
    preferred_tiles: tuple[CardTile, ...] = ()
    warnings: tuple[str, ...] = ()


def node_gpus(node: Mapping[str, Any]) -> NodeGpus | None:
    """The Intel GPUs of a Node object; ``None`` if its labels name no cards."""
    metadata = node.get("metadata") or {}
    labels = _Labels(metadata.get("labels") or {})
    cards = labels.cards()
    if not cards:
        return None
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    groups = labels.pci_groups()
    disabled_cards, disabled_tiles = labels.disabled(groups)
    preferred_card, preferred_tiles = labels.preferred()
    return NodeGpus(
        node=str(metadata.get("name", "")),
        cards=cards,
        capacity={resource: _capacity(allocatable, resource, len(cards)) for resource in GpuResource},
        numa_groups=labels.numa_groups(),
        xe_links=labels.xe_links(cards),
        disabled_cards=disabled_cards,
        disabled_tiles=disabled_tiles,
        preferred_card=preferred_card,
        preferred_tiles=preferred_tiles,
        warnings=tuple(labels.warnings),
    )


def joined_label(labels: Mapping[str, str], name: str) -> str | None:
    """A label's value with its continuations ``name2``, ``name3`` …, each of which begins with ``Z``.

    A label holds 63 characters; longer values are cut by the plugin.

    Returns
    -------
    str or None
        Empty without such a label; ``None`` if a continuation does not begin with ``Z``.
    """
    value = labels.get(name, "")
    number = 2
    while (more := labels.get(f"{name}{number}")) is not None:
        if not more.startswith(_CONTINUED):
            return None
        value += more.removeprefix(_CONTINUED)
        number += 1
    return value


@dataclass
class _Labels:
    """Labels of a node, with warnings."""

    labels: Mapping[str, str]
    warnings: list[str] = field(default_factory=list)

    def _joined(self, name: str) -> str:
        value = joined_label(self.labels, f"{GPU_PREFIX}{name}")
        if value is None:
            self.warnings.append(f"label {GPU_PREFIX}{name} has a continuation that does not begin with Z")
        return value or ""

    def _wrong(self, name: str, value: str) -> None:
        self.warnings.append(f"label {GPU_PREFIX}{name} cannot be understood: {value!r}")

    def cards(self) -> tuple[str, ...]:
        """From ``gpu-numbers``, or from the older ``cards``."""
        numbers = self._joined("gpu-numbers")
        names = [f"card{number}" for number in numbers.split(".")] if numbers else []
        if not names and (value := self.labels.get(f"{GPU_PREFIX}cards")):
            names = value.split(".")
        try:
            return tuple(sorted(set(names), key=card_number))
        except AnnotationError:
            self._wrong("gpu-numbers", ".".join(names))
            return ()

    def _groups(self, name: str, value: str, numbers: list[str]) -> tuple[tuple[str, ...], ...]:
        """Groups of cards by the numbers in a label's value."""
        try:
            groups = [tuple(f"card{number}" for number in group.split(".")) for group in numbers]
            for group in groups:
                for card in group:
                    card_number(card)
        except AnnotationError:
            self._wrong(name, value)
            return ()
        return tuple(groups)

    def numa_groups(self) -> tuple[tuple[str, ...], ...]:
        """``numa-gpu-map`` without the numbers of the NUMA nodes: ``0-0.1_1-2.3``."""
        value = self._joined("numa-gpu-map")
        if not value:
            return ()
        parts = [group.split("-") for group in value.split("_")]
        if any(len(part) != 2 or not part[0].isdecimal() for part in parts):
            self._wrong("numa-gpu-map", value)
            return ()
        return self._groups("numa-gpu-map", value, [numbers for _, numbers in parts])

    def pci_groups(self) -> tuple[tuple[str, ...], ...]:
        """``pci-groups``: cards on one board, ``0.1_2.3``."""
        value = self._joined("pci-groups")
        return self._groups("pci-groups", value, value.split("_")) if value else ()

    def xe_links(self, cards: tuple[str, ...]) -> tuple[tuple[CardTile, CardTile], ...]:
        """``xe-links``, with positions of cards as numbers: ``0.0-1.0_2.0-3.0``."""
        value = self._joined("xe-links")
        links = []
        for part in value.split("_") if value else ():
            found = _XE_LINK.fullmatch(part)
            numbers = [int(each) for each in found.groups()] if found else []
            if not numbers or max(numbers[0], numbers[2]) >= len(cards):
                self._wrong("xe-links", value)
                return ()
            links.append(((cards[numbers[0]], numbers[1]), (cards[numbers[2]], numbers[3])))
        return tuple(links)

    def _telemetry(self) -> list[tuple[str, str]]:
        """Labels of telemetry policies, without the policy's name."""
        found = ((_POLICY_LABEL.fullmatch(label), value) for label, value in sorted(self.labels.items()))
        return [(match[1], value) for match, value in found if match]

    def disabled(self, pci_groups: tuple[tuple[str, ...], ...]) -> tuple[frozenset[str], frozenset[CardTile]]:
        """Cards (or their whole group) and tiles not to be used for further servers; those to be emptied too."""
        cards: set[str] = set()
        tiles: set[CardTile] = set()
        for label, value in self._telemetry():
            for prefix in ("gas-disable-", "gas-deschedule-pods-"):
                card = label.removeprefix(prefix)
                if card != label:
                    group = next((group for group in pci_groups if card in group), ())
                    cards.update({card, *(group if value == _PCI_GROUP else ())})
            for prefix in ("gas-tile-disable-", "gas-tile-deschedule-"):
                if label.startswith(prefix) and (found := _CARD_TILE.fullmatch(label.removeprefix(prefix))):
                    tiles.add((found[1], int(found[2])))
        return frozenset(cards), frozenset(tiles)

    def preferred(self) -> tuple[str, tuple[CardTile, ...]]:
        """The card (``gas-prefer-gpu=card0``) and the tiles (``gas-tile-preferred-card0=gt1``) to be used first."""
        card = ""
        tiles = []
        for label, value in self._telemetry():
            if label == "gas-prefer-gpu":
                card = card or value
            elif label.startswith("gas-tile-preferred-"):
                found = _CARD_TILE.fullmatch(f"{label.removeprefix('gas-tile-preferred-')}_{value}")
                if found:
                    tiles.append((found[1], int(found[2])))
        return card, tuple(tiles)


def _capacity(allocatable: Mapping[str, Any], resource: GpuResource, cards: int) -> CardCapacity:
    def each(name: str) -> int:
        try:
            return Quantity.parse(allocatable.get(name, 0)).value() // cards
        except QuantityError:
            return 0

    return CardCapacity(
        shares=each(resource.full_name), millicores=each(MILLICORES), memory_bytes=each(MEMORY), tiles=each(TILES)
    )
