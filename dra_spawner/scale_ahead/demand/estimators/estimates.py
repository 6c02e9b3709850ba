"""What one estimator says about the next minutes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where a figure comes from."""

    REACTIVE = "recent launches"
    SEASONAL = "past weeks"
    RECURRING = "recurring class"
    BURST = "a burst"
    STEADY = "a steady number"
    CALENDAR = "calendar"
    PENDING = "pending spawns"
    FLOOR = "floor"
    FIXED = "fixed"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Demand until a node that is ordered now is useful.

    Either `expected` and `launches`, to which a safety is added, or `assured`, which is a number of placeholders.
    """

    source: Source
    expected: float = 0.0
    """Launches less departures."""
    launches: float = 0.0
    """Launches; they decide how uncertain `expected` is."""
    assured: int = 0
    """Placeholders that are wanted for this reason alone."""
    note: str = ""
    """Short text for people, such as the calendar entry's name."""
