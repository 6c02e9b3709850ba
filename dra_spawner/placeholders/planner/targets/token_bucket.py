"""A token bucket as a value; it bounds evictions in any time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dra_spawner.placeholders.planner.targets.policy import Budget


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens left at a time.

    A service that just started has none, as the one before it may have spent them.
    """

    left: float
    at: datetime

    def refilled(self, budget: Budget, now: datetime) -> Tokens:
        """The bucket filled until now. A clock that jumps back adds nothing; one that jumps ahead fills it once."""
        seconds = max((now - self.at).total_seconds(), 0.0)
        return Tokens(min(self.left + seconds * budget.per_second, float(budget.burst)), now)

    def take(self) -> Tokens | None:
        """The bucket with one token less; None if it is empty."""
        return Tokens(self.left - 1.0, self.at) if self.left >= 1.0 else None
