"""Nodes where one pod does not fit, each remembered until its inputs change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dra_spawner.simulator.model.table import ChangeLog, Table

T = TypeVar("T")


class FailedFits:
    """See the module. With a fresh memo the same pods fit; finding that out takes longer."""

    def __init__(self) -> None:
        self._inputs: dict[str, object] = {}
        self._states: object = None
        self._changes = 0
        self._left: list[str] = []
        self._failing: tuple[object, tuple[int, ...], frozenset[str]] | None = None

    def untried(self, states: Table[str, Any], most: int) -> list[str] | None:
        """Nodes without a failure in exactly this state, by name; None if they are more than `most`.

        Only nodes that have changed since the last call are looked at, and those that were untried then.
        """
        changed = states.changed_since(self._changes) if states is self._states else None
        inputs, left = self._inputs, list[str]()
        self._states = None
        for name in sorted(states) if changed is None else sorted({*changed, *self._left}):
            if name in states and inputs.get(name) is not states[name]:
                left.append(name)
                if len(left) > most:
                    return None
        self._states, self._changes, self._left = states, states.changes, left
        return left

    def unchanged(self, ground: object, *logs: ChangeLog[str]) -> frozenset[str]:
        """Nodes where all failures hold without a comparison: those of `note_failing`, without changes since.

        Parameters
        ----------
        ground
            What else the failures follow from. If it differs, no node is returned.
        logs
            Changes of the nodes; all nodes may have changed where a log does not know.
        """
        if self._failing is None or self._failing[0] != ground:
            return frozenset()
        changes = [log.since(count) for log, count in zip(logs, self._failing[1], strict=True)]
        if None in changes:
            return frozenset()
        return self._failing[2].difference(*(each for each in changes if each))

    def note_failing(self, nodes: Iterable[str], ground: object, *logs: ChangeLog[str]) -> None:
        """Remember nodes with failures, for `unchanged`."""
        self._failing = (ground, tuple(log.count for log in logs), frozenset(nodes))

    def has_failed(self, node: str, inputs: object) -> bool:
        """Whether the pod did not fit on a node with equal inputs; never with None."""
        return inputs is not None and self._inputs.get(node) == inputs

    def note(self, node: str, inputs: object) -> None:
        """Remember a failure, unless the inputs are None."""
        self._inputs[node] = inputs

    def attempt(self, node: str, inputs: object, fit: Callable[[str], T | None]) -> T | None:
        """Result of an attempt; None if the pod does not fit.

        Parameters
        ----------
        inputs
            A failure is repeated without a new attempt while this value equals the one before; None equals none.
        fit
            Attempts to fit the pod on the node; returns None for a failure that holds while the inputs are equal.
        """
        if self.has_failed(node, inputs):
            return None
        result = fit(node)
        if result is None:
            self.note(node, inputs)
        return result

    def forget(self, node: str) -> None:
        """Forget a failure, for example of a deleted node."""
        self._inputs.pop(node, None)
        self._failing = None
