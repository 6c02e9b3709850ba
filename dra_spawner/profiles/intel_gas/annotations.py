"""Parsing and formatting of the annotations about cards that GAS, the plugin and the hub share.

``gas-container-cards`` has a section for each container of the pod, in order: ``card0,card1||card2``. The section of a
container without GPUs is empty. ``gas-container-tiles`` lists the tiles of each card: ``card0:gt0+gt1||``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Section = TypeVar("Section")

#: Cards of one container, in the order in which it sees them.
Cards = tuple[str, ...]
#: Tiles of one container: each card with the numbers of its tiles.
Tiles = tuple[tuple[str, tuple[int, ...]], ...]

_CARD = re.compile(r"card(\d{1,5})", re.ASCII)
_TILE = re.compile(r"gt(\d{1,5})", re.ASCII)
#: The plugin reads numbers of tiles as 16-bit integers.
_MAX_TILE = 32767


class AnnotationError(ValueError):
    """Raised for an annotation that GAS and the plugin neither write nor understand."""


def card_number(card: str) -> int:
    """The number of a card, which orders cards.

    Raises
    ------
    AnnotationError
        If it is not a card's name.
    """
    found = _CARD.fullmatch(card)
    if found is None:
        raise AnnotationError(f"{card!r} is no card")
    return int(found[1])


def parse_cards(value: str) -> tuple[Cards, ...]:
    """Sections of ``gas-container-cards``; an empty value is one empty section.

    Raises
    ------
    AnnotationError
        If an item is not a card.
    """
    sections = tuple(tuple(section.split(",")) if section else () for section in value.split("|"))
    for section in sections:
        for card in section:
            card_number(card)
    return sections


def format_cards(sections: Iterable[Cards]) -> str:
    """The value of ``gas-container-cards``."""
    return "|".join(",".join(section) for section in sections)


def parse_card_tiles(section: str) -> Tiles:
    """One section of ``gas-container-tiles``, such as ``card0:gt0+gt1,card1:gt0``.

    Raises
    ------
    AnnotationError
        If the syntax is wrong.
    """
    found = []
    for part in section.split(","):
        card, colon, tiles = part.partition(":")
        if not colon or ":" in tiles:
            raise AnnotationError(f"{part!r} is not a card with its tiles")
        card_number(card)
        found.append((card, tuple(_tile_number(tile) for tile in tiles.split("+"))))
    return tuple(found)


def parse_tiles(value: str) -> tuple[Tiles, ...]:
    """Sections of ``gas-container-tiles``; an empty value is one empty section.

    Raises
    ------
    AnnotationError
        If the syntax is wrong.
    """
    return tuple(parse_card_tiles(section) if section else () for section in value.split("|"))


def format_tiles(sections: Iterable[Tiles]) -> str:
    """The value of ``gas-container-tiles``."""
    return "|".join(
        ",".join(f"{card}:{'+'.join(f'gt{tile}' for tile in tiles)}" for card, tiles in section) for section in sections
    )


def parse_time(annotations: Mapping[str, str], name: str) -> int | None:
    """``gas-ts`` in nanoseconds since 1970; ``None`` if missing or not a number."""
    value = annotations.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= 30 else None


def filled_section(sections: Sequence[Section], index: int) -> tuple[int, Section] | None:
    """Position and value of the section of the pod's GPU container number ``index``; empty sections do not count."""
    filled = [(position, section) for position, section in enumerate(sections) if section]
    return filled[index] if 0 <= index < len(filled) else None


def of_containers(sections: Sequence[Section], uses_gpu: Sequence[bool], empty: Section) -> list[Section] | None:
    """One section for each container of a pod.

    GAS writes one section for each container. If their number differs, the filled sections belong to the GPU containers
    in order, as in the plugin.

    Returns
    -------
    list or None
        ``None`` if the sections match neither way.
    """
    if len(sections) == len(uses_gpu):
        return list(sections)
    filled = [section for section in sections if section]
    if len(filled) != sum(uses_gpu):
        return None
    rest = iter(filled)
    return [next(rest) if uses else empty for uses in uses_gpu]


def _tile_number(tile: str) -> int:
    found = _TILE.fullmatch(tile)
    if found is None or int(found[1]) > _MAX_TILE:
        raise AnnotationError(f"{tile!r} is no tile")
    return int(found[1])
