"""Who has how much of which card: the ledger of cards, tiles, millicores and memory.

It can be kept from assignment to assignment, or rebuilt from the pods that there are; both come to the same. Nothing
enforces it on the devices: it holds as long as those who use them keep to it.
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
    """What is asked of one card, beside the card itself (its *share*, one unit of ``gpu.intel.com/i915`` or ``xe``)."""

    millicores: int = 0
    memory_bytes: int = 0
    tiles: int = 0

    def __add__(self, other: Need) -> Need:
        return Need(
            self.millicores + other.millicores, self.memory_bytes + other.memory_bytes, self.tiles + other.tiles
        )


#: A card and nothing besides.
NO_NEED: Final = Need()


@dataclass(frozen=True, slots=True)
class CardCapacity:
    """What one card has: shares (units of ``i915`` or ``xe``, how many containers may have it), and the rest."""

    shares: int = 0
    millicores: int = 0
    memory_bytes: int = 0
    tiles: int = 0


@dataclass(frozen=True, slots=True)
class CardUse:
    """What is taken of one card.

    Attributes
    ----------
    tiles
        Numbers of the tiles that are taken.
    unknown_tiles
        How many more are taken of which the numbers are not known.
    """

    shares: int = 0
    millicores: int = 0
    memory_bytes: int = 0
    tiles: frozenset[int] = frozenset()
    unknown_tiles: int = 0

    def with_container(self, need: Need, tiles: Iterable[int]) -> CardUse:
        """With one container more."""
        known = frozenset(tiles)
        return CardUse(
            self.shares + 1,
            self.millicores + need.millicores,
            self.memory_bytes + need.memory_bytes,
            self.tiles | known,
            self.unknown_tiles + max(0, need.tiles - len(known)),
        )

    def has_room(self, capacity: CardCapacity, need: Need, shares: int = 1) -> bool:
        """Whether so much more fits; tiles only by their count."""
        return (
            self.shares + shares <= capacity.shares
            and self.millicores + need.millicores <= capacity.millicores
            and self.memory_bytes + need.memory_bytes <= capacity.memory_bytes
            and (not need.tiles or len(self.tiles) + self.unknown_tiles + need.tiles <= capacity.tiles)
        )

    def within(self, capacity: CardCapacity) -> bool:
        """Whether no more is taken than there is."""
        return self.has_room(capacity, NO_NEED, 0) and len(self.tiles) + self.unknown_tiles <= capacity.tiles


@dataclass(frozen=True, slots=True)
class ContainerCards:
    """The cards of one container; none for one without GPUs.

    Attributes
    ----------
    need
        Of each of the cards.
    """

    cards: Cards = ()
    tiles: Tiles = ()
    need: Need = NO_NEED


@dataclass(frozen=True, slots=True)
class Assignment:
    """The cards of one pod.

    Attributes
    ----------
    node
        Where they are; empty as long as that is not known.
    time
        ``gas-ts``: when they were assigned, in nanoseconds since 1970.
    containers
        In the order of the pod's.
    """

    node: str
    time: int
    containers: tuple[ContainerCards, ...]


@dataclass
class Ledger:
    """Assignments of pods, and what they add up to."""

    _assignments: dict[PodKey, Assignment] = field(default_factory=dict)

    @classmethod
    def of(cls, assignments: Mapping[PodKey, Assignment]) -> Ledger:
        """A ledger of just these."""
        return cls(dict(assignments))

    def __iter__(self) -> Iterator[PodKey]:
        return iter(tuple(self._assignments))

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._assignments

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._assignments == other._assignments

    def get(self, pod: PodKey) -> Assignment | None:
        """A pod's assignment, if it has one."""
        return self._assignments.get(pod)

    def assign(self, pod: PodKey, assignment: Assignment) -> None:
        """Give cards to a pod, in place of those it had."""
        self._assignments[pod] = assignment

    def release(self, pod: PodKey) -> None:
        """Take a pod's cards back, if it has any."""
        self._assignments.pop(pod, None)

    def uses(self) -> dict[str, dict[str, CardUse]]:
        """What is taken, by node and card; of those that are not there, nothing."""
        found: dict[str, dict[str, CardUse]] = {}
        for assignment in self._assignments.values():
            if assignment.node:
                add_use(found.setdefault(assignment.node, {}), assignment.containers)
        return found


def add_use(use: dict[str, CardUse], containers: Iterable[ContainerCards]) -> None:
    """Add what containers take to the use of a node's cards."""
    for container in containers:
        tiles = dict(container.tiles)
        for card in container.cards:
            use[card] = use.get(card, CardUse()).with_container(container.need, tiles.get(card, ()))
