"""Figures of nodes, each remembered until an object changes that it was computed from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

V = TypeVar("V")


class NodeMemo(Generic[V]):
    """See the module. A fresh memo gives the same figures, later."""

    def __init__(self) -> None:
        self._figures: dict[str, tuple[tuple[object, ...], V]] = {}
        self._nodes_by_key: dict[Hashable, set[str]] = {}

    def __len__(self) -> int:
        """How many keys figures depend on."""
        return len(self._nodes_by_key)

    def of(self, node: str, objects: tuple[object, ...], compute: Callable[[], tuple[V, Iterable[Hashable]]]) -> V:
        """Figure of a node.

        Parameters
        ----------
        objects
            The figure is computed anew unless these are the very same objects as before.
        compute
            Returns the figure, and keys of all other objects that it was computed from.
        """
        known = self._figures.get(node)
        if known is not None and all(map(operator.is_, known[0], objects)):
            return known[1]
        figure, keys = compute()
        self._figures[node] = objects, figure
        for key in keys:
            self._nodes_by_key.setdefault(key, set()).add(node)
        return figure

    def object_changed(self, key: Hashable) -> Collection[str]:
        """Forget the figures that were computed from an object, and return their nodes."""
        nodes = self._nodes_by_key.pop(key, ())
        for node in nodes:
            self._figures.pop(node, None)
        return nodes

    def forget(self, node: str) -> None:
        """Forget the figure of one node."""
        self._figures.pop(node, None)

    def trim(self, max_keys: int) -> bool:
        """Forget everything when it depends on more keys than there can be objects: pods may name any.

        Returns
        -------
        bool
            Whether it has forgotten everything.
        """
        if len(self._nodes_by_key) <= max_keys:
            return False
        self._nodes_by_key.clear()
        self._figures.clear()
        return True
