"""Classes of nodes with equal devices in equal use, updated while nodes and allocations change.

A class is defined by the structure of its nodes' pools (`Signatures`) and the use of their local devices. The use
of common devices is not part of it, as each allocation would change the class of every node; it is a part of the keys
of cached verdicts instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from dra_spawner.dra.allocation.allocated_state import AllocatedState, DeviceUse, PoolDevices
from dra_spawner.dra.allocation.visibility import Visibility
from dra_spawner.dra.model.devices import Device, ResourceSlice
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.model.pools import Pool, selects_node
from dra_spawner.simulator.devices.caching import Cache
from dra_spawner.simulator.devices.class_verdicts import ClassVerdict, Reason
from dra_spawner.simulator.devices.pool_views import NodeView

_SPARE: Final = 2_000
"""Maximum of empty classes; they are kept as nodes return to them when devices are freed."""

_MAX_USES: Final = 1_000

VerdictKey = tuple[int, int]
"""Number of a claim shape, and of the use of common devices."""


class CommonDevices:
    """Devices of common pools that some nodes see equally, and their use."""

    __slots__ = ("_checked", "_next_number", "_number", "_numbers", "devices")

    def __init__(self, devices: tuple[PoolDevices, ...]) -> None:
        self.devices = devices
        self._numbers: Cache[tuple[DeviceUse, ...], int] = Cache(_MAX_USES)
        self._number = 0
        self._next_number = count(1)
        self._checked = -1

    def number(self, allocated: AllocatedState, change: int) -> int:
        """A number that identifies the present use of the devices.

        Parameters
        ----------
        change
            Number of the last change of the use of any common device.
        """
        if self.devices and change != self._checked:
            uses = allocated.uses(self.devices)
            number = self._numbers.get(uses)
            if number is None:
                number = self._numbers.keep(uses, next(self._next_number))
            self._number = number
            self._checked = change
        return self._number


class NodeClass:
    """Nodes for which every verdict is the same.

    Attributes
    ----------
    structure
        Number of the structure of its nodes' pools in this partition.
    uses
        Use of their local devices.
    common
        The common devices that its nodes see.
    nodes
        Names of its present nodes.
    verdicts, reasons
        Verdicts by claim shape; they also hold for nodes that join later.
    """

    __slots__ = ("_queue", "common", "nodes", "reasons", "structure", "uses", "verdicts")

    def __init__(self, structure: int, uses: tuple[DeviceUse, ...], common: CommonDevices, max_verdicts: int) -> None:
        self.structure = structure
        self.uses = uses
        self.common = common
        self.nodes: set[str] = set()
        self.verdicts: Cache[VerdictKey, ClassVerdict] = Cache(max_verdicts)
        self.reasons: Cache[VerdictKey, Reason] = Cache(max_verdicts)
        self._queue: list[tuple[int, str]] = []

    def add(self, name: str, rank: int) -> None:
        """Add a node."""
        self.nodes.add(name)
        heappush(self._queue, (rank, name))

    def first(self, ranks: Mapping[str, int]) -> tuple[int, str]:
        """Rank and name of its first node; there must be one."""
        queue = self._queue
        if len(queue) > 2 * len(self.nodes) + 8:
            queue[:] = [(ranks[name], name) for name in self.nodes]
            heapify(queue)
        while queue[0][1] not in self.nodes or ranks[queue[0][1]] != queue[0][0]:
            heappop(queue)
        return queue[0]


class NodeClasses:
    """All nodes, partitioned into classes by the attributes of devices that some claims read.

    Parameters
    ----------
    attributes
        See :class:`~dra_spawner.simulator.devices.claim_shapes.ClaimShape`.
    serials
        See `Signatures`.
    view_of
        Returns the present view of a node by name.
    ranks
        Rank of each node in the order of addition, by name.
    max_verdicts
        Maximum of cached verdicts of each class.
    """

    def __init__(
        self,
        attributes: frozenset[str] | None,
        serials: Mapping[str, int],
        view_of: Callable[[str], NodeView],
        allocated: AllocatedState,
        ranks: Mapping[str, int],
        max_verdicts: int,
    ) -> None:
        self._most_verdicts = max_verdicts
        self._signatures = Signatures(attributes, serials)
        self._view_of = view_of
        self._allocated = allocated
        self._ranks = ranks
        self._stale: dict[str, None] = dict.fromkeys(ranks)
        self._views: dict[str, tuple[NodeView, int, CommonDevices]] = {}
        self._structures: dict[Hashable, int] = {}
        self._structure_numbers = count()
        self._commons: dict[tuple[PoolDevices, ...], CommonDevices] = {}
        self._classes: dict[tuple[int, tuple[DeviceUse, ...]], NodeClass] = {}
        self._class_of: dict[str, NodeClass] = {}
        self.live: dict[NodeClass, None] = {}
        """Classes that have a node."""
        self.revived: list[NodeClass] = []
        """Classes that got a node while they were empty, in this order, with repetitions."""

    def mark_stale(self, name: str) -> None:
        """Note that a node or the use of its devices may have changed; the name may be unknown."""
        self._stale[name] = None

    def class_of(self, name: str) -> NodeClass:
        """The class of a node. Raises KeyError if the node does not exist."""
        if name in self._stale:
            del self._stale[name]
            self._classify(name)
        return self._class_of[name]

    def refresh(self) -> None:
        """Update the classes of all nodes."""
        if self._stale:
            stale, self._stale = self._stale, {}
            for name in stale:
                self._classify(name)

    def __iter__(self) -> Iterator[NodeClass]:
        """Classes that have a node."""
        self.refresh()
        return iter(self.live)

    def _classify(self, name: str) -> None:
        before = self._class_of.get(name)
        if name not in self._ranks:
            self._views.pop(name, None)
            if before is not None:
                del self._class_of[name]
                self._leave(name, before)
            return
        view = self._view_of(name)
        known = self._views.get(name)
        if known is None or known[0] is not view:
            known = self._views[name] = (view, *self._structure(view))
        key = (known[1], self._allocated.uses(view.local_devices))
        found = self._classes.get(key)
        if found is None:
            self._prune()
            found = self._classes[key] = NodeClass(*key, known[2], self._most_verdicts)
        if found is before:
            # Its rank may have changed.
            found.add(name, self._ranks[name])
            return
        if before is not None:
            self._leave(name, before)
        if not found.nodes:
            self.live[found] = None
            self.revived.append(found)
        found.add(name, self._ranks[name])
        self._class_of[name] = found

    def _leave(self, name: str, left: NodeClass) -> None:
        left.nodes.discard(name)
        if not left.nodes:
            del self.live[left]

    def _structure(self, view: NodeView) -> tuple[int, CommonDevices]:
        common = self._commons.get(view.common_devices)
        if common is None:
            common = self._commons[view.common_devices] = CommonDevices(view.common_devices)
        signature = self._signatures.signature(view)
        number = self._structures.get(signature)
        if number is None:
            number = self._structures[signature] = next(self._structure_numbers)
        return number, common

    def _prune(self) -> None:
        """Drop empty classes and unused structures above the limits."""
        if len(self._classes) > 3 * len(self.live) + _SPARE:
            self._classes = {(live.structure, live.uses): live for live in self.live}
        if len(self.revived) > 3 * len(self.live) + _SPARE:
            self.revived = list(self.live)
        if len(self._structures) > 3 * len(self._views) + _SPARE:
            used = {number for _, number, _ in self._views.values()}
            self._structures = {signature: number for signature, number in self._structures.items() if number in used}
            self._commons = {common.devices: common for _, _, common in self._views.values()}


class Signatures:
    """Computes signatures of nodes with the given attributes of devices: what decides about claims, without names.

    Common pools, which other nodes see, too, count by identity, and local pools by content. A signature has all inputs
    of the search: the order of pools and devices, visible descriptions, counters, taints, node selection, and equal
    names of pools, as counters are found by name.

    Parameters
    ----------
    attributes
        See :class:`~dra_spawner.simulator.devices.claim_shapes.ClaimShape`.
    serials
        Unique number of a slice's version, by its name.
    """

    def __init__(self, attributes: frozenset[str] | None, serials: Mapping[str, int]) -> None:
        self._visibility = Visibility(attributes)
        self._serials = serials

    def signature(self, view: NodeView) -> Hashable:
        """A value that is equal for nodes that differ only in names, if the use of their devices is equal."""
        names: dict[str, int] = {}
        parts: list[Hashable] = [view.error]
        for pool in view.pools:
            index = names.setdefault(pool.id.pool, len(names))
            parts.append(
                (index, self._local_pool(pool, view.node) if pool.id in view.local else self._common(pool, view.node))
            )
        return tuple(parts)

    def _local_pool(self, pool: Pool, node: Node) -> Hashable:
        return (
            pool.state,
            pool.problem,
            tuple([self._local_slice(part, node) for part in pool.slices]),
            tuple([self._local_slice(part, node) for part in pool.other_slices]),
            tuple(pool.counters.items()),
        )

    def _common(self, pool: Pool, node: Node) -> Hashable:
        return (
            pool.id,
            pool.state,
            pool.problem,
            self._numbers_of(pool.slices),
            self._numbers_of(pool.other_slices),
            tuple(pool.counters.items()),
            tuple([_choices(part, node) for part in pool.slices if part.per_device_node_selection]),
        )

    def _numbers_of(self, slices: Iterable[ResourceSlice]) -> tuple[int, ...]:
        return tuple([self._serials[item.name] for item in slices])

    def _local_slice(self, part: ResourceSlice, node: Node) -> Hashable:
        """Equal for slices that select their nodes alike and differ only in names and invisible attributes."""
        devices = part.devices
        seen = (
            part.common_key,
            part.device_rules,
            self._visibility.attributes_of([device.description for device in devices]),
        )
        if not part.per_device_node_selection:
            return seen
        own_selectors = tuple([device.node_selector.terms if device.node_selector else None for device in devices])
        named = tuple([device.node_name is not None for device in devices])
        return seen, own_selectors, named, _choices(part, node)


def _choices(part: ResourceSlice, node: Node) -> tuple[Hashable, ...]:
    """For each device whether it selects the node, or why that is unknown."""
    return tuple([_choice(device, node) for device in part.devices])


def _choice(device: Device, node: Node) -> Hashable:
    try:
        return selects_node(node, device.node_name, device.all_nodes, device.node_selector)
    except NodeSelectorError as error:
        return str(error)
