"""Limits of searches for devices, set by the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from dra_spawner.dra.budget import SearchBudget


class SearchLimits(Protocol):
    """Gives each search its budget."""

    def check(self, shape: int) -> None:
        """Raise SearchStopped if nothing may be searched for claims of this shape; called before `search`."""
        ...

    def search(self, shape: int) -> AbstractContextManager[SearchBudget]:
        """The budget of one search on one node, for claims of the shape with this number, as the context of the search.

        Raises
        ------
        SearchStopped
            When these claims have no budget left.
        """
        ...


class CommonBudget:
    """One budget for all searches until the next question.

    Parameters
    ----------
    new_budget
        Makes the budget of a question.
    """

    def __init__(self, new_budget: Callable[[], SearchBudget]) -> None:
        self._new_budget = new_budget
        self._budget = new_budget()

    def next_question(self) -> None:
        """Start with a new budget."""
        self._budget = self._new_budget()

    def check(self, shape: int) -> None:
        """See `SearchLimits`."""

    @contextmanager
    def search(self, shape: int) -> Iterator[SearchBudget]:
        """See `SearchLimits`."""
        self._budget.spend(1)
        yield self._budget
