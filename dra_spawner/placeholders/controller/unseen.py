"""Placeholders that were made and that the watch does not show yet: nobody knows how many there are meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.executor import Expectation
from dra_spawner.placeholders.planner.actions import Action, CreatePlaceholder
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
        self._made: list[tuple[Expectation, float]] = []

    def note(self, expected: Iterable[Expectation], seconds: float) -> None:
        """Remember what else is missing, for so long; after that it is gone again."""
        until = self._clock() + seconds
        self._made += [(each, until) for each in expected if each.kind is Kind.POD and each.is_new]

    def without_more(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        """The actions; no placeholder is made while some that were made are yet to be seen, or there were too many."""
        now = self._clock()
        self._made = [(each, until) for each, until in self._made if now < until and not each.is_met(self._watch)]
        if not self._made:
            return actions
        return tuple(each for each in actions if not isinstance(each, CreatePlaceholder))
