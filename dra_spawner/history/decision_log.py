"""The latest decisions, each with its reason, for administrators."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision and its reason."""

    at: datetime
    """Time of the decision, with time zone."""
    kind: str
    """Kind of the decision, from the closed vocabulary of its source."""
    subject: str
    """Object of the decision: ``Kind namespace/name``, or a profile."""
    reason: str
    """Reason as a sentence, for people."""
    code: str = ""
    """Reason from a closed vocabulary, for programs."""
    node: str = ""
    profile: str = ""
    outcome: str = ""
    """``done``, or the error; empty if it is not known."""
    details: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NumberedDecision:
    number: int
    """From 1, without gaps."""
    decision: Decision


class DecisionLog:
    """The latest decisions, in memory.

    Parameters
    ----------
    limit
        Number of decisions in the log.
    """

    def __init__(self, limit: int = 1000) -> None:
        if limit < 1:
            raise ValueError(f"the limit of a decision log must be at least 1, not {limit}")
        self._kept: deque[NumberedDecision] = deque(maxlen=limit)
        self._count = 0
        self._decided_at: datetime | None = None
        self._callbacks: list[Callable[[NumberedDecision], None]] = []

    @property
    def count(self) -> int:
        """Number of decisions since the start."""
        return self._count

    @property
    def decided_at(self) -> datetime | None:
        """Time of the last round of decisions, also of one without a decision; None before the first round."""
        return self._decided_at

    def append(self, decision: Decision, *, of_round: bool = True) -> NumberedDecision:
        """Add a decision.

        Parameters
        ----------
        of_round
            Whether a round of decisions made it, so that its time is the round's time.
        """
        self._count += 1
        numbered = NumberedDecision(self._count, decision)
        self._kept.append(numbered)
        if of_round:
            self.note_round(decision.at)
        for callback in tuple(self._callbacks):
            callback(numbered)
        return numbered

    def note_round(self, at: datetime) -> None:
        """Store the time of a round of decisions, also of one without a decision."""
        if self._decided_at is None or at > self._decided_at:
            self._decided_at = at

    def newest(
        self,
        limit: int = 100,
        *,
        after: int = 0,
        before: int | None = None,
        matches: Callable[[Decision], bool] = lambda decision: True,
    ) -> tuple[NumberedDecision, ...]:
        """The newest decisions, newest first.

        Parameters
        ----------
        after
            Only decisions with a higher number.
        before
            Only decisions with a lower number.
        """
        found: list[NumberedDecision] = []
        for numbered in reversed(self._kept):
            if numbered.number <= after or len(found) >= limit:
                break
            if (before is None or numbered.number < before) and matches(numbered.decision):
                found.append(numbered)
        return tuple(found)

    def on_append(self, callback: Callable[[NumberedDecision], None]) -> Callable[[], None]:
        """Call a function with each new decision; it must not raise.

        Returns
        -------
        callable
            Ends the calls.
        """
        self._callbacks.append(callback)

        def end() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return end
