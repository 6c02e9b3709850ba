"""A token bucket as a value: evictions in any time are bounded, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dra_spawner.placeholders.planner.policy import Budget


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is left of a budget at a time.

    A service that just started has none: it does not know what the one before it spent.
    """

    left: float
    at: datetime

    def refilled(self, budget: Budget, now: datetime) -> Tokens:
        """With what came in until now. A clock that jumps back brings nothing; one that jumps ahead fills it once."""
        seconds = max((now - self.at).total_seconds(), 0.0)
        return Tokens(min(self.left + seconds * budget.per_second, float(budget.burst)), now)

    def take(self) -> Tokens | None:
        """With one token less; None if there is none."""
        return Tokens(self.left - 1.0, self.at) if self.left >= 1.0 else None
