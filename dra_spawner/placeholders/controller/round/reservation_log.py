"""Answers to servers among the decisions: why they got no warm placeholder, and which devices they prefer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.records.decision_text import PREFERENCE, REFUSAL
from dra_spawner.placeholders.controller.round.reservations import ReservedPlacement
from dra_spawner.placeholders.planner.actions import ReservePlaceholder
from dra_spawner.placeholders.planner.targets.shapes import Shape

#: Time in seconds within which equal answers are one entry.
_SAME: Final = timedelta(seconds=10)
#: Time in seconds after which the number of equal answers is dropped.
_LONGEST: Final = timedelta(minutes=10)

_Same = tuple[str, str, str]
"""Shape, namespace, code and reason."""


@dataclass
class ReservationLog:
    """Logs why servers get no warm placeholder, except where capacity is free, and the devices that they prefer.

    Attributes
    ----------
    name_of
        See `Reconciler`.
    """

    decisions: DecisionLog
    now: Callable[[], datetime]
    name_of: Callable[[str], str]
    _noted: dict[_Same, tuple[datetime, int]] = field(default_factory=dict)
    """Time of the last entry, and number of equal answers since then."""

    def answered(self, shape: Shape, namespace: str, pod: str, reservation: ReservedPlacement) -> None:
        placement = reservation.placement
        match placement.state:
            case AvailabilityState.FREE if reason := placement.preferences.reason:
                code, node, subject = placement.state, placement.node, f"Pod {namespace}/{pod}"
                decision = Decision(self.now(), PREFERENCE, subject, reason, code, node, outcome="done")
                self._note_once((shape.id, namespace, f"{node} {reason}"), decision)
            case AvailabilityState.READY | AvailabilityState.AFTER_PLACEHOLDER | AvailabilityState.FREE:
                pass  # the reconciler has logged a reservation
            case _:
                reason = f"no placeholder is warm for it: {placement.reason}"
                self.refused(shape.id, namespace, pod, placement.state, reason, node=placement.node)

    def failed(self, shape: Shape, namespace: str, pod: str, error: str) -> None:
        """Log that the API server refused a reservation."""
        reason = "a warm placeholder was chosen for it"
        decision = Decision(self.now(), ReservePlaceholder.kind, f"Pod {namespace}/{pod}", reason, outcome=error)
        self._note_once((shape.id, namespace, error), decision)

    def refused(self, shape: str, namespace: str, pod: str, code: str, reason: str, *, node: str = "") -> None:
        """Log that nothing was reserved."""
        decision = Decision(self.now(), REFUSAL, f"Pod {namespace}/{pod}", reason, code, node, outcome="done")
        self._note_once((shape, namespace, code), decision)

    def _note_once(self, same: _Same, decision: Decision) -> None:
        """Log the first of equal answers; the next entry has their number."""
        now = decision.at
        self._noted = {
            key: each for key, each in self._noted.items() if now - each[0] < (_LONGEST if each[1] else _SAME)
        }
        at, unnoted = self._noted.get(same, (now - _SAME, 0))
        # A clock that was set back must not suppress entries.
        if timedelta(0) <= now - at < _SAME:
            self._noted[same] = at, unnoted + 1
            return
        self._noted[same] = now, 0
        self._note(replace(decision, details={"similar_before": unnoted} if unnoted else {}), same[0])

    def _note(self, decision: Decision, shape: str) -> None:
        details = {**decision.details, "shape": shape}
        self.decisions.append(replace(decision, profile=self.name_of(shape), details=details), of_round=False)
