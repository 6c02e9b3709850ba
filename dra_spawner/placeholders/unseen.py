"""Placeholders that were made and that the watch does not show yet: nobody knows how many there are meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dra_spawner.cluster.cluster_watch import ClusterWatch
from dra_spawner.headroom.actions import Action, CreatePlaceholder
from dra_spawner.placeholders.carry_out import Expectation
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["Unseen"]


class Unseen:
    """See the module.

    Parameters
    ----------
    watch
        Is to show them.
    clock
        Seconds that only go forward.
    """

    def __init__(self, watch: ClusterWatch, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._watch = watch
        self._clock = clock
        self._made: list[Expectation] = []
        self._until = 0.0

    def note(self, expected: Iterable[Expectation], seconds: float) -> None:
        """Remember what is missing, for so long; after that it is gone again."""
        self._made = [each for each in expected if each.kind is Kind.POD and each.is_new]
        self._until = self._clock() + seconds

    def without_more(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        """The actions; no placeholder is made while some that were made are yet to be seen, or there were too many."""
        self._made = [each for each in self._made if not each.is_met(self._watch)]
        if not self._made or self._clock() >= self._until:
            return actions
        return tuple(each for each in actions if not isinstance(each, CreatePlaceholder))
