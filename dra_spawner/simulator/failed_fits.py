"""Nodes where one pod does not fit, each remembered until its inputs change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

__all__ = ["FailedFits"]

T = TypeVar("T")


class FailedFits:
    """See the module. With a fresh memo the same pods fit; finding that out takes longer."""

    def __init__(self) -> None:
        self._inputs: dict[str, object] = {}

    def untried(self, states: Mapping[str, object]) -> list[str]:
        """Nodes without a failure in exactly this state."""
        inputs = self._inputs
        return [name for name, state in states.items() if inputs.get(name) is not state]

    def attempt(self, node: str, inputs: object, fit: Callable[[str], T | None]) -> T | None:
        """Result of an attempt; None if the pod does not fit.

        Parameters
        ----------
        inputs
            A failure is repeated without a new attempt while this value equals the one before; None equals none.
        fit
            Attempts to fit the pod on the node; returns None for a failure that holds while the inputs are equal.
        """
        if inputs is not None and self._inputs.get(node) == inputs:
            return None
        result = fit(node)
        if result is None:
            self._inputs[node] = inputs
        return result

    def forget(self, node: str) -> None:
        """Forget a failure, for example of a deleted node."""
        self._inputs.pop(node, None)
