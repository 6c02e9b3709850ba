"""Signatures of nodes: all parts of their pools that decide about claims, without names.

The use of devices is not part of a signature; see `node_classes`. Common pools, which other nodes see, too, count by
identity, and local pools by content. A signature has all inputs of the search: the order of pools and devices, visible
descriptions, counters, taints, node selection, and equal names of pools, as counters are found by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from dra_spawner.dra.allocation.visibility import Visibility
from dra_spawner.dra.model.devices import Device, ResourceSlice
from dra_spawner.dra.model.node_selector import NodeSelectorError
from dra_spawner.dra.model.objects import Node
from dra_spawner.dra.model.pools import Pool, selects_node
from dra_spawner.simulator.devices.pool_views import NodeView

__all__ = ["Signatures"]


class Signatures:
    """Computes signatures with the given attributes of devices.

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
