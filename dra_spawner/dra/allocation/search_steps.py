"""What a step of the search takes, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from dra_spawner.dra.allocation.requests import PreparedAlternative
from dra_spawner.dra.model.consumable_capacity import Share
from dra_spawner.dra.model.pools import Candidate

__all__ = ["StepOutcome", "TakenDevice"]


class StepOutcome(Enum):
    """How a step of the search and all that follow it ended."""

    FOUND = auto()
    NOT_FOUND = auto()
    OVER_LIMIT = auto()
    """Every way on needs more devices than a claim may have: trying other devices is pointless, other alternatives
    may do."""


@dataclass(slots=True)
class TakenDevice:
    """What taking one device has changed, so that it can be undone."""

    alternative: PreparedAlternative
    candidate: Candidate
    counters_reserved: bool
    constraints_added: int = 0
    is_marked: bool = False
    share: Share | None = None
    had_shares: bool = False
    is_recorded: bool = False
