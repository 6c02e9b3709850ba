"""Node classes on which claims of one shape fit; after a change only classes that were empty are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dra_spawner.simulator.devices.node_classes import NodeClass, NodeClasses

__all__ = ["FittingClasses"]


class FittingClasses:
    """The fitting classes of one claim shape."""

    __slots__ = ("_common_change", "_fitting", "_revived", "_seen")

    def __init__(self) -> None:
        self._fitting: dict[NodeClass, None] = {}
        self._revived: list[NodeClass] = []
        self._seen = 0
        self._common_change = -1

    def first(
        self,
        partition: NodeClasses,
        ranks: Mapping[str, int],
        common_change: int,
        fits: Callable[[NodeClass], bool],
    ) -> str | None:
        """Name of the first node of a class that fits; None if there is none.

        Parameters
        ----------
        partition
            The current nodes.
        common_change
            Number of the last change of the use of any common device, which may change every verdict.
        fits
            Whether the claims fit on a class.
        """
        if self._revived is not partition.revived or self._common_change != common_change:
            self._fitting.clear()
            self._revived, self._seen = partition.revived, len(partition.revived)
            self._common_change = common_change
            self._fitting.update((item, None) for item in partition.live if fits(item))
        for item in self._revived[self._seen :]:
            if item.nodes and item not in self._fitting and fits(item):
                self._fitting[item] = None
        self._seen = len(self._revived)
        for item in [item for item in self._fitting if not item.nodes]:
            del self._fitting[item]
        return min([item.first(ranks) for item in self._fitting], default=(0, None))[1]
