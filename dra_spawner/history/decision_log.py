"""The latest decisions, each with its reason: what an administrator reads to see why something is where it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Decision", "DecisionLog", "NumberedDecision"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided."""

    at: datetime
    """With time zone."""
    kind: str
    """Kind of the decision, from the closed vocabulary of its source."""
    subject: str
    """What it is about: ``Kind namespace/name``, or a profile."""
    reason: str
    """A sentence for people."""
    code: str = ""
    """The reason for programs, out of a closed vocabulary."""
    node: str = ""
    profile: str = ""
    outcome: str = ""
    """What came of it, where that is known: ``done``, or the error."""
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
            raise ValueError(f"a log of {limit} decisions keeps nothing")
        self._kept: deque[NumberedDecision] = deque(maxlen=limit)
        self._count = 0
        self._decided_at: datetime | None = None
        self._callbacks: list[Callable[[NumberedDecision], None]] = []

    @property
    def count(self) -> int:
        """How many there ever were."""
        return self._count

    @property
    def decided_at(self) -> datetime | None:
        """When it was last decided what to do, be it nothing; None if it never was."""
        return self._decided_at

    def append(self, decision: Decision, *, of_round: bool = True) -> NumberedDecision:
        """Remember a decision.

        Parameters
        ----------
        of_round
            Whether all was looked at for it.
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
        """Remember that all was looked at, whether or not there was anything to do."""
        if self._decided_at is None or at > self._decided_at:
            self._decided_at = at

    def newest(
        self,
        limit: int = 100,
        *,
        after: int = 0,
        matches: Callable[[Decision], bool] = lambda decision: True,
    ) -> tuple[NumberedDecision, ...]:
        """The newest decisions, newest first.

        Parameters
        ----------
        after
            Only those with a higher number: what is new since the last question.
        """
        found: list[NumberedDecision] = []
        for numbered in reversed(self._kept):
            if numbered.number <= after or len(found) >= limit:
                break
            if matches(numbered.decision):
                found.append(numbered)
        return tuple(found)

    def on_append(self, callback: Callable[[NumberedDecision], None]) -> Callable[[], None]:
        """Be told of each decision; what is returned ends that. The callback must not raise."""
        self._callbacks.append(callback)

        def end() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return end
