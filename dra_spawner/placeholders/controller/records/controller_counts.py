"""What is counted since the start of the process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dra_spawner.history.decision_log import NumberedDecision
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, Hold


@dataclass(slots=True)
class ControllerCounts:
    """Counts since the start of the process.

    Attributes
    ----------
    placements
        Answers by kind.
    ended
        Placeholders that ended, by cause.
    denials
        Denied evictions, by rule.
    """

    placements: Counter[AvailabilityState] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    denials: Counter[Hold] = field(default_factory=Counter)

    def note(self, numbered: NumberedDecision) -> None:
        """Count a decision."""
        decision = numbered.decision
        if decision.kind == DeletePlaceholder.kind and decision.outcome == "done":
            self.ended[decision.code] += 1

    def note_denial(self, denial: Hold) -> None:
        """Count a denied eviction."""
        self.denials[denial] += 1
