"""The cost limit of a search for devices: it is exponential, and the author of a claim decides how long it takes.

A search that exceeds its budget has no verdict: the claims neither fit nor do not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_STEPS_BETWEEN_LOOKS: Final = 64
"""Steps between two looks at the clock."""


class SearchStopped(Exception):
    """The search was stopped before it had a verdict. It is no AllocationError, which is a verdict.

    Attributes
    ----------
    steps
        Steps that the search had taken.
    reason
        Why the search was stopped, as a clause.
    """

    def __init__(self, steps: int, reason: str = "that is the limit") -> None:
        self.steps = steps
        self.reason = reason
        super().__init__(f"the search for devices was stopped after {steps:,} steps: {reason}")


class SearchBudget:
    """Steps that searches may take together; one or several searches spend it.

    A step is one call of the search, as kube-scheduler's allocator counts them, and more for a call that looks at many
    devices or checks many constraints: about 10 µs in any case.

    Parameters
    ----------
    steps
        The most that may be spent; None for no limit.
    is_over
        Asked now and then; true ends the search as well. Only a caller may know the time.

    Attributes
    ----------
    spent
        Steps so far.
    """

    __slots__ = ("_is_over", "_limit", "_look_at", "spent")

    def __init__(self, steps: int | None = None, is_over: Callable[[], bool] | None = None) -> None:
        self.spent = 0
        self._limit = steps
        self._is_over = is_over
        self._look_at = self._next_look()

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises
        ------
        SearchStopped
            When the budget is exceeded, or the time is over.
        """
        self.spent += steps
        if self.spent >= self._look_at:
            self._look()

    def _look(self) -> None:
        if self._limit is not None and self.spent > self._limit:
            raise SearchStopped(self.spent, f"the limit is {self._limit:,}")
        if self._is_over is not None and self._is_over():
            self._look_at = 0
            raise SearchStopped(self.spent, "the time for it is over")
        self._look_at = self._next_look()

    def _next_look(self) -> int:
        """When to look at the limits next, in steps spent."""
        after_limit = None if self._limit is None else self._limit + 1
        soon = self.spent + _STEPS_BETWEEN_LOOKS
        if self._is_over is None:
            return after_limit if after_limit is not None else 2**62
        return soon if after_limit is None else min(soon, after_limit)
