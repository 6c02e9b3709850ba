"""The nodes, their views of pools, and their classes for each set of attributes that claims read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.model.objects import AllocatedDevice, Node
from dra_spawner.simulator.devices.caching import CacheSizes
from dra_spawner.simulator.devices.claim_shapes import ClaimShape
from dra_spawner.simulator.devices.node_classes import NodeClass, NodeClasses
from dra_spawner.simulator.devices.pool_views import Concerned, NodeView, PoolViews
from dra_spawner.simulator.model.table import ChangeLog


class NodePartitions:
    """Partitions of the nodes into classes, one for each set of attributes that claims read.

    Parameters
    ----------
    nodes, ranks
        The nodes, and the rank of each in the order of addition, by name; changes are reported to `note_node`.
    pools
        Their pools; changes are reported to `note_pools`.
    allocated
        Devices in use; changes are reported to `note_use`.

    Attributes
    ----------
    common_change
        Number of the last change of the use of any device that several nodes see.
    changes
        Nodes whose devices, or their use, have changed; reverts count, too.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        ranks: Mapping[str, int],
        pools: PoolViews,
        allocated: AllocatedState,
        sizes: CacheSizes,
    ) -> None:
        self._nodes = nodes
        self._ranks = ranks
        self._pools = pools
        self._allocated = allocated
        self._views: dict[str, NodeView] = {}
        self._sizes = sizes
        self._partitions: dict[frozenset[str] | None, NodeClasses] = {}
        self.common_change = 0
        self.changes = ChangeLog[str]()

    def view(self, name: str) -> NodeView:
        """The pools that a node sees. Raises KeyError if the node does not exist."""
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._pools.view(self._nodes[name])
        return view

    def views(self) -> dict[str, NodeView]:
        """The views that were computed since the last change of their nodes, by node name."""
        return dict(self._views)

    def of(self, shape: ClaimShape) -> NodeClasses:
        """The nodes, partitioned by the attributes that claims of this shape read."""
        partition = self._partitions.get(shape.attributes)
        if partition is None:
            partition = NodeClasses(
                shape.attributes,
                self._pools.serials,
                self.view,
                self._allocated,
                self._ranks,
                self._sizes.class_verdicts,
            )
            if len(self._partitions) >= self._sizes.partitions:
                self._partitions.pop(next(iter(self._partitions), None), None)
            if self._sizes.partitions:
                self._partitions[shape.attributes] = partition
        return partition

    def common_use(self, node_class: NodeClass) -> int:
        """Number of the present use of the common devices of this class."""
        return node_class.common.number(self._allocated, self.common_change)

    def note_use(self, held: Iterable[AllocatedDevice]) -> None:
        """Note that these devices, or shares of them, were allocated or freed."""
        for item in held:
            if item.admin_access:
                continue
            owner = self._pools.owner(item.id)
            if owner:
                self._mark_stale(owner)
            elif owner is not None:
                self.common_change += 1
                self.changes.note_all()

    def _mark_stale(self, name: str) -> None:
        self.changes.note(name)
        for partition in self._partitions.values():
            partition.mark_stale(name)

    def note_node(self, name: str) -> None:
        """Note that a node was added, removed or replaced."""
        self._views.pop(name, None)
        self._mark_stale(name)

    def note_pools(self, concerned: Concerned) -> None:
        """Note that these nodes see other pools now; None means all nodes."""
        # Allocations of a common pool may begin to count now.
        self.common_change += 1
        self.changes.note_all()
        for name in self._nodes if concerned is None else concerned:
            self.note_node(name)
