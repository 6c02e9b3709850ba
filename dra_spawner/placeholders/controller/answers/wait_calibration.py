"""How true estimates of waits are: the estimate of each pending server is compared with its wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from dra_spawner.placeholders.planner.answers.waits import WaitInterval

#: Limit of pending servers that are remembered.
_MAX_PENDING: Final = 5_000


class EstimateOutcome(StrEnum):
    """How a wait ended, compared with its interval."""

    INSIDE = "inside"
    #: Before the interval.
    EARLY = "early"
    #: After it, or the server ended without a node after it.
    LATE = "late"


@dataclass(frozen=True, slots=True)
class _Estimate:
    """An estimate, from the creation of the server."""

    created: datetime
    interval: WaitInterval

    def outcome(self, now: datetime) -> EstimateOutcome:
        """How it came out if the wait ends now."""
        waited = (now - self.created).total_seconds()
        if waited < self.interval.low_seconds:
            return EstimateOutcome.EARLY
        return EstimateOutcome.INSIDE if waited <= self.interval.high_seconds else EstimateOutcome.LATE


class WaitCalibration:
    """Remembers the estimates of pending servers, and counts how they came out since the start."""

    def __init__(self) -> None:
        self.counts: Counter[EstimateOutcome] = Counter()
        self._pending: dict[str, _Estimate | None] = {}

    @property
    def share_inside(self) -> float | None:
        """The share of waits inside of their interval; None before the first one."""
        total = self.counts.total()
        return self.counts[EstimateOutcome.INSIDE] / total if total else None

    def knows(self, uid: str) -> bool:
        """Whether a pending server was noted, with an estimate or without."""
        return uid in self._pending

    def note(self, uid: str, created: datetime, now: datetime, interval: WaitInterval | None) -> None:
        """Keep the estimate of a pending server; None keeps that there was none.

        Parameters
        ----------
        interval
            From now on.
        """
        if len(self._pending) < _MAX_PENDING:
            waited = max((now - created).total_seconds(), 0.0)
            self._pending[uid] = _Estimate(created, interval.later(waited)) if interval is not None else None

    def bound(self, uid: str, now: datetime) -> None:
        """A server got its node."""
        if (estimate := self._pending.pop(uid, None)) is not None:
            self.counts[estimate.outcome(now)] += 1

    def keep_only(self, uids: Collection[str], now: datetime) -> None:
        """Forget servers that are not pending any more, and got no node.

        A server that ended after its interval has waited too long; one that ended before it tells nothing.
        """
        for uid in self._pending.keys() - set(uids):
            estimate = self._pending.pop(uid)
            if estimate is not None and estimate.outcome(now) is EstimateOutcome.LATE:
                self.counts[EstimateOutcome.LATE] += 1
