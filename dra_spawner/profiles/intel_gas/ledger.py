"""The ledger of cards, tiles, millicores and memory by pod.

It is updated with each assignment or rebuilt from the pods, with the same result. Nothing enforces it on the devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_spawner.profiles.intel_gas.annotations import Cards, Tiles

#: Namespace and name.
PodKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Need:
    """Request of one card, beside the card itself (its *share*, one unit of ``gpu.intel.com/i915`` or ``xe``)."""

    millicores: int = 0
    memory_bytes: int = 0
    tiles: int = 0

    def __add__(self, other: Need) -> Need:
        return Need(
            self.millicores + other.millicores, self.memory_bytes + other.memory_bytes, self.tiles + other.tiles
        )


#: A card without amounts.
NO_NEED: Final = Need()


@dataclass(frozen=True, slots=True)
class CardCapacity:
    """Capacity of one card: shares (units of ``i915`` or ``xe``: the number of containers), and amounts."""

    shares: int = 0
    millicores: int = 0
    memory_bytes: int = 0
    tiles: int = 0


@dataclass(frozen=True, slots=True)
class CardUse:
    """Use of one card.

    Attributes
    ----------
    unknown_tiles
        Number of used tiles with unknown numbers.
    """

    shares: int = 0
    millicores: int = 0
    memory_bytes: int = 0
    tiles: frozenset[int] = frozenset()
    unknown_tiles: int = 0

    def with_container(self, need: Need, tiles: Iterable[int]) -> CardUse:
        known = frozenset(tiles)
        return CardUse(
            self.shares + 1,
            self.millicores + need.millicores,
            self.memory_bytes + need.memory_bytes,
            self.tiles | known,
            self.unknown_tiles + max(0, need.tiles - len(known)),
        )

    def fits(self, capacity: CardCapacity, need: Need, shares: int = 1) -> bool:
        """Whether a further need fits; tiles by their number only."""
        return (
            self.shares + shares <= capacity.shares
            and self.millicores + need.millicores <= capacity.millicores
            and self.memory_bytes + need.memory_bytes <= capacity.memory_bytes
            and (not need.tiles or len(self.tiles) + self.unknown_tiles + need.tiles <= capacity.tiles)
        )

    def within(self, capacity: CardCapacity) -> bool:
        """Whether the use is at most the capacity."""
        return self.fits(capacity, NO_NEED, 0) and len(self.tiles) + self.unknown_tiles <= capacity.tiles


@dataclass(frozen=True, slots=True)
class ContainerCards:
    """The cards of one container; empty without GPUs."""

    cards: Cards = ()
    tiles: Tiles = ()
    need: Need = NO_NEED


@dataclass(frozen=True, slots=True)
class CardAssignment:
    """The cards of one pod.

    Attributes
    ----------
    node
        Node of the cards; empty if not known yet.
    time
        ``gas-ts``: time of the assignment, in nanoseconds since 1970.
    containers
        In the order of the pod's.
    """

    node: str
    time: int
    containers: tuple[ContainerCards, ...]


@dataclass
class Ledger:
    """Assignments of pods, and their sums."""

    _assignments: dict[PodKey, CardAssignment] = field(default_factory=dict)

    @classmethod
    def of(cls, assignments: Mapping[PodKey, CardAssignment]) -> Ledger:
        return cls(dict(assignments))

    def __iter__(self) -> Iterator[PodKey]:
        return iter(tuple(self._assignments))

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._assignments

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._assignments == other._assignments

    def get(self, pod: PodKey) -> CardAssignment | None:
        """A pod's assignment; ``None`` if it has none."""
        return self._assignments.get(pod)

    def assign(self, pod: PodKey, assignment: CardAssignment) -> None:
        """Set a pod's cards, in place of earlier ones."""
        self._assignments[pod] = assignment

    def release(self, pod: PodKey) -> None:
        """Take a pod's cards back, if it has any."""
        self._assignments.pop(pod, None)

    def uses(self) -> dict[str, dict[str, CardUse]]:
        """Use by node and card; unused cards are missing."""
        found: dict[str, dict[str, CardUse]] = {}
        for assignment in self._assignments.values():
            if assignment.node:
                add_use(found.setdefault(assignment.node, {}), assignment.containers)
        return found


def add_use(use: dict[str, CardUse], containers: Iterable[ContainerCards]) -> None:
    """Add the cards of containers to the use of a node's cards."""
    for container in containers:
        tiles = dict(container.tiles)
        for card in container.cards:
            use[card] = use.get(card, CardUse()).with_container(container.need, tiles.get(card, ()))
