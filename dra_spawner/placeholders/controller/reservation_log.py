"""Refused reservations among the decisions: why servers got no warm placeholder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.placeholders.controller.decision_words import REFUSAL
from dra_spawner.placeholders.controller.reservations import ReservedPlacement
from dra_spawner.placeholders.planner.actions import ReservePlaceholder
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.shapes import Shape

__all__ = ["ReservationLog"]

#: A hundred servers that get the same answer at once are one line, not all that is remembered.
_SAME: Final = timedelta(seconds=10)
#: After so long it is not told any more how many there were.
_LONGEST: Final = timedelta(minutes=10)

_Same = tuple[str, str, str]
"""Shape, namespace, and what was said."""


@dataclass
class ReservationLog:
    """Notes why servers that are about to start get no warm placeholder. What they find free is not worth a line.

    Attributes
    ----------
    decisions
        Where it is noted.
    now
        The time.
    name_of
        See `Reconciler`.
    """

    decisions: DecisionLog
    now: Callable[[], datetime]
    name_of: Callable[[str], str]
    _noted: dict[_Same, tuple[datetime, int]] = field(default_factory=dict)
    """Of what comes in numbers: when the last one was noted, and how many were not since then."""

    def answered(self, shape: Shape, namespace: str, pod: str, reservation: ReservedPlacement) -> None:
        """A question was answered."""
        placement = reservation.placement
        match placement.kind:
            case PlacementKind.WARM | PlacementKind.FRESH:
                pass  # the reconciler has noted the reservation; what is free is not worth a line
            case _:
                reason = f"no placeholder is warm for it: {placement.reason}"
                self.refused(shape.id, namespace, pod, placement.kind, reason, node=placement.node)

    def failed(self, shape: Shape, namespace: str, pod: str, error: str) -> None:
        """The API server refused a reservation."""
        reason = "it was to get a warm placeholder"
        decision = Decision(self.now(), ReservePlaceholder.kind, f"Pod {namespace}/{pod}", reason, outcome=error)
        self._note_once((shape.id, namespace, error), decision)

    def refused(self, shape: str, namespace: str, pod: str, code: str, reason: str, *, node: str = "") -> None:
        """Nothing was reserved."""
        decision = Decision(self.now(), REFUSAL, f"Pod {namespace}/{pod}", reason, code, node, outcome="done")
        self._note_once((shape, namespace, code), decision)

    def _note_once(self, same: _Same, decision: Decision) -> None:
        """Of many alike in a few seconds the first is noted, and with the next one how many there were."""
        now = decision.at
        self._noted = {
            key: each for key, each in self._noted.items() if now - each[0] < (_LONGEST if each[1] else _SAME)
        }
        at, unnoted = self._noted.get(same, (now - _SAME, 0))
        # A clock that was set back must not silence it.
        if timedelta(0) <= now - at < _SAME:
            self._noted[same] = at, unnoted + 1
            return
        self._noted[same] = now, 0
        self._note(replace(decision, details={"alike_before": unnoted} if unnoted else {}), same[0])

    def _note(self, decision: Decision, shape: str) -> None:
        details = {**decision.details, "shape": shape}
        self.decisions.append(replace(decision, profile=self.name_of(shape), details=details), of_round=False)
