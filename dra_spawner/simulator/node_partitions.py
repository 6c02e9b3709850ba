"""The nodes, what each of them sees, and how they fall into classes for claims that see different attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dra_spawner.dra.allocated_state import AllocatedState
from dra_spawner.dra.objects import AllocatedDevice, Node
from dra_spawner.simulator.claim_shapes import ClaimShape
from dra_spawner.simulator.node_classes import NodeClass, NodeClasses
from dra_spawner.simulator.pool_views import Concerned, NodeView, PoolViews

__all__ = ["Divisions"]

_MOST_DIVISIONS: Final = 16
"""Ways to divide nodes into classes, one for each set of attributes that claims look at."""


class Divisions:
    """All nodes in all their classes, brought up to date when they are asked for.

    Parameters
    ----------
    nodes, places
        By name, the nodes and the place of each among the others; whoever changes them tells `note_node`.
    pools
        What they see; whoever changes it tells `note_pools`.
    allocated
        What is in use; whoever changes it tells `note_use`.

    Attributes
    ----------
    common_change
        Number of the last change of the use of any device that several nodes see.
    """

    def __init__(
        self, nodes: Mapping[str, Node], places: Mapping[str, int], pools: PoolViews, allocated: AllocatedState
    ) -> None:
        self._nodes = nodes
        self._places = places
        self._pools = pools
        self._allocated = allocated
        self._views: dict[str, NodeView] = {}
        self._divisions: dict[frozenset[str] | None, NodeClasses] = {}
        self.common_change = 0

    def view(self, name: str) -> NodeView:
        """What a node sees. KeyError when there is no such node."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._pools.view(self._nodes[name])
        return view

    def views(self) -> dict[str, NodeView]:
        """What each node that was asked for sees at this moment, by its name."""
        return dict(self._views)

    def of(self, shape: ClaimShape) -> NodeClasses:
        """The nodes, divided by what claims of this shape can see."""
        division = self._divisions.get(shape.attributes)
        if division is None:
            if len(self._divisions) >= _MOST_DIVISIONS:
                del self._divisions[next(iter(self._divisions))]
            division = NodeClasses(shape.attributes, self._pools.serials, self.view, self._allocated, self._places)
            self._divisions[shape.attributes] = division
        return division

    def common_use(self, node_class: NodeClass) -> int:
        """A number for how the common devices that nodes of this class see are used now."""
        return node_class.common.number(self._allocated, self.common_change)

    def note_use(self, held: Iterable[AllocatedDevice]) -> None:
        """These devices, or shares of them, were taken or given back."""
        if not self._divisions:
            # Nothing has been found out yet that this could change.
            return
        for item in held:
            if item.admin_access:
                continue
            owner = self._pools.owner(item.id)
            if owner:
                for division in self._divisions.values():
                    division.mark_stale(owner)
            elif owner is not None:
                self.common_change += 1

    def note_node(self, name: str) -> None:
        """A node came, went, or is another one now."""
        self._views.pop(name, None)
        for division in self._divisions.values():
            division.mark_stale(name)

    def note_pools(self, concerned: Concerned) -> None:
        """These nodes see other pools now; None means all of them."""
        # What is allocated of a common pool may only count now.
        self.common_change += 1
        for name in self._nodes if concerned is None else concerned:
            self.note_node(name)
