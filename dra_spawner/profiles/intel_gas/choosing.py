"""The choice of cards and tiles for a server: the first way to place all of its containers, in its policy's order.

GAS takes the first card that fits each container in turn. This search begins with the same, and backtracks within
limits when a later container does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from dra_spawner.profiles.intel_gas.annotations import Tiles, card_number
from dra_spawner.profiles.intel_gas.gas_language import ContainerGpuRequest, GpuRequest
from dra_spawner.profiles.intel_gas.labels import CardTile, NodeGpus
from dra_spawner.profiles.intel_gas.ledger import NO_NEED, CardCapacity, CardUse, ContainerCards, Need, add_use
from dra_spawner.profiles.intel_gas.names import CardPolicy

#: Limit of ways that are tried on one node; then it counts as full.
_MAX_STEPS = 20_000

Uses = Mapping[str, CardUse]
#: Cards for a container, and their tiles.
_Option = tuple[tuple[str, ...], Tiles]


@dataclass(frozen=True, slots=True)
class ChosenCards:
    """A server's node, and the cards of each container of its pod, in order."""

    node: str
    containers: tuple[ContainerCards, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Containers that are placed together: a single one, or those that share a card."""

    containers: tuple[str, ...]
    count: int
    need: Need


def choose(
    request: GpuRequest, nodes: Sequence[NodeGpus], uses: Mapping[str, Uses], containers: Sequence[str]
) -> ChosenCards | None:
    """Cards for a server on the best node by its policy.

    A node comes first if its preferred card (by a telemetry label) is chosen. Otherwise first-fit takes the first node
    by name, balanced the least used one, packed the most used one.

    Parameters
    ----------
    nodes
        Candidates.
    uses
        Present use, by node and card.
    containers
        Names of the pod's containers, in order.

    Returns
    -------
    ChosenCards or None
        ``None`` if the server fits on no node.
    """
    best: tuple[tuple[bool, Fraction, str], ChosenCards] | None = None
    for gpus in nodes:
        use = uses.get(gpus.node, {})
        found = choose_on_node(request, gpus, use, containers)
        if found is None:
            continue
        cards = {card for container in found for card in container.cards}
        rank = (gpus.preferred_card not in cards, _node_rank(request, gpus, use), gpus.node)
        if best is None or rank < best[0]:
            best = (rank, ChosenCards(gpus.node, found))
    return best[1] if best else None


def choose_on_node(
    request: GpuRequest, gpus: NodeGpus, use: Uses, containers: Sequence[str]
) -> tuple[ContainerCards, ...] | None:
    """Cards on this node for each container of the pod; ``None`` if they do not fit."""
    groups = gpus.numa_groups if request.single_numa and gpus.numa_groups else (gpus.cards,)
    for group in groups:
        usable = tuple(card for card in gpus.cards if card in group and _is_usable(request, gpus, card))
        found = _Search(request, gpus, usable).place(_units(request), use)
        if found is not None:
            return tuple(found.get(name, ContainerCards()) for name in containers)
    return None


def _is_usable(request: GpuRequest, gpus: NodeGpus, card: str) -> bool:
    return (
        card not in gpus.disabled_cards and (not request.allow or card in request.allow) and card not in request.deny
    )  # as in GAS, deny goes before allow


def _units(request: GpuRequest) -> list[_Unit]:
    """The units in order of placement; containers that share a card come first, as they are the hardest."""
    units = []
    sharing = [each for each in request.containers if each.name in request.same_gpu]
    if sharing:
        units.append(_Unit(tuple(each.name for each in sharing), 1, sum((each.need for each in sharing), NO_NEED)))
    units += [_Unit((each.name,), each.count, each.need) for each in request.containers if each not in sharing]
    return units


class _Search:
    """Depth first over the units of a server, on the cards of one node."""

    def __init__(self, request: GpuRequest, gpus: NodeGpus, usable: tuple[str, ...]) -> None:
        self._request = request
        self._gpus = gpus
        self._usable = usable
        self._needs = {each.name: each.need for each in request.containers}
        self._capacity: CardCapacity = gpus.capacity[request.resource]
        self._steps = 0

    def place(self, units: Sequence[_Unit], use: Uses) -> dict[str, ContainerCards] | None:
        """Cards by container, or ``None``."""
        if not units:
            return {}
        unit, *rest = units
        for cards, tiles in self._options(unit, use):
            self._steps += 1
            if self._steps > _MAX_STEPS:
                return None
            mine = {name: ContainerCards(cards, tiles, self._needs[name]) for name in unit.containers}
            used = dict(use)
            add_use(used, mine.values())
            others = self.place(rest, used)
            if others is not None:
                return mine | others
        return None

    def _options(self, unit: _Unit, use: Uses) -> Iterator[_Option]:
        """Ways to place a unit, the best first."""
        free = {card: self._free_tiles(card, use) for card in self._usable if self._fits(card, unit, use)}
        ordered = sorted(free, key=lambda card: self._rank(card, unit, use))
        if self._request.xe_link:
            yield from self._linked(unit, ordered, free)
            return
        for cards in combinations(ordered, unit.count):
            tiles = tuple((card, tuple(free[card][: unit.need.tiles])) for card in cards if unit.need.tiles)
            yield cards, tiles

    def _linked(self, unit: _Unit, ordered: Sequence[str], free: Mapping[str, Sequence[int]]) -> Iterator[_Option]:
        """Pairs of cards, each with an Xe Link between two free tiles."""
        links: list[tuple[CardTile, CardTile]] = []
        for one, other in self._gpus.xe_links:
            if one[0] != other[0] and all(card in free and tile in free[card] for card, tile in (one, other)):
                links.append((one, other) if ordered.index(one[0]) < ordered.index(other[0]) else (other, one))
        links.sort(key=lambda link: (ordered.index(link[0][0]), ordered.index(link[1][0])))
        for pairs in combinations(links, unit.count // 2):
            tiles = [tile for pair in pairs for tile in pair]
            cards = tuple(card for card, _ in tiles)
            if len(set(cards)) == len(cards):
                yield cards, tuple((card, (tile,)) for card, tile in tiles)

    def _fits(self, card: str, unit: _Unit, use: Uses) -> bool:
        used = use.get(card, CardUse())
        return (
            used.fits(self._capacity, unit.need, len(unit.containers))
            and len(self._free_tiles(card, use)) - used.unknown_tiles >= unit.need.tiles
        )

    def _free_tiles(self, card: str, use: Uses) -> list[int]:
        """Numbers of the free tiles, those that telemetry prefers first."""
        used = use.get(card, CardUse())
        preferred = [tile for name, tile in self._gpus.preferred_tiles if name == card]
        free = [
            tile
            for tile in range(self._capacity.tiles)
            if tile not in used.tiles and (card, tile) not in self._gpus.disabled_tiles
        ]
        return sorted(free, key=lambda tile: (preferred.index(tile) if tile in preferred else len(preferred), tile))

    def _rank(self, card: str, unit: _Unit, use: Uses) -> tuple[int, bool, int, int]:
        request = self._request
        wanted = request.prefer.index(card) if card in request.prefer else len(request.prefer)
        used = _amount(use.get(card, CardUse()), unit.need)
        order = {CardPolicy.FIRST_FIT: 0, CardPolicy.BALANCED: used, CardPolicy.PACKED: -used}[request.policy]
        return wanted, card != self._gpus.preferred_card, order, card_number(card)


def _amount(use: CardUse, need: Need) -> int:
    """Use of a card in the first requested unit of: millicores, memory, tiles, shares."""
    if need.millicores:
        return use.millicores
    if need.memory_bytes:
        return use.memory_bytes
    return len(use.tiles) + use.unknown_tiles if need.tiles else use.shares


def _capacity_amount(capacity: CardCapacity, need: Need) -> int:
    if need.millicores:
        return capacity.millicores
    if need.memory_bytes:
        return capacity.memory_bytes
    return capacity.tiles if need.tiles else capacity.shares


def _node_rank(request: GpuRequest, gpus: NodeGpus, use: Uses) -> Fraction:
    """Rank of a node: its used part, as nodes differ in size."""
    first: ContainerGpuRequest = request.containers[0]
    whole = _capacity_amount(gpus.capacity[request.resource], first.need) * len(gpus.cards)
    if request.policy is CardPolicy.FIRST_FIT or not whole:
        return Fraction(0)
    taken = Fraction(sum(_amount(use.get(card, CardUse()), first.need) for card in gpus.cards), whole)
    return taken if request.policy is CardPolicy.BALANCED else -taken
