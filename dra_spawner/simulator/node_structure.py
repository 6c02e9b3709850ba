"""Signatures of nodes: everything in their pools that decides about claims, without names. Alike nodes are equal.

The use of devices is not part of it; see `node_classes`. Common pools (which other nodes see, too) stand for
themselves; of local ones the content counts. What a signature must keep follows from what the search looks at: the
order of pools and devices, descriptions as far as selectors and constraints can see them, counters, taints, choice of
nodes, and which pools have equal names, because counters are looked up by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from dra_spawner.dra.devices import Device, ResourceSlice
from dra_spawner.dra.node_selector import NodeSelectorError
from dra_spawner.dra.objects import Node
from dra_spawner.dra.pools import Pool, selects_node
from dra_spawner.dra.visibility import Visibility
from dra_spawner.simulator.pool_views import NodeView

__all__ = ["Signatures"]


class Signatures:
    """Makes signatures that see the given attributes of devices only.

    Parameters
    ----------
    attributes
        See :class:`~dra_spawner.simulator.claim_shapes.ClaimShape`.
    serials
        By name of a slice, a number that no other version of it ever has.
    """

    def __init__(self, attributes: frozenset[str] | None, serials: Mapping[str, int]) -> None:
        self._visibility = Visibility(attributes)
        self._serials = serials

    def signature(self, view: NodeView) -> Hashable:
        """Equal for nodes that differ in names at most, as long as their devices are used alike."""
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
        """Equal for slices that differ only in names and invisible attributes and choose the node alike."""
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
    """Whether each device chooses the node, where devices do so themselves; or why that cannot be told."""
    return tuple([_choice(device, node) for device in part.devices])


def _choice(device: Device, node: Node) -> Hashable:
    try:
        return selects_node(node, device.node_name, device.all_nodes, device.node_selector)
    except NodeSelectorError as error:
        return str(error)
