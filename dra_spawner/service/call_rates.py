"""Limits of how often one person may ask for something."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.placeholders.planner.targets.policy import Budget, Tokens

#: Limit of people who are remembered; the one who has not asked for the longest time is forgotten.
_MAX_CALLERS: Final = 5_000
_ALL: Final = ""


class CallRates:
    """Counts what each person asks for, in this process.

    Parameters
    ----------
    burst, every
        So many at once, and one more after each such time.
    all_burst, all_every
        The same for all people together.
    """

    def __init__(self, burst: int, every: timedelta, all_burst: int, all_every: timedelta) -> None:
        self._own = Budget(1 / every.total_seconds(), burst)
        self._all = Budget(1 / all_every.total_seconds(), all_burst)
        self._known: dict[str, Tokens] = {}

    def take(self, caller: str, now: datetime) -> bool:
        """Whether a person may ask once more now; then it is counted."""
        own, common = self._taken(caller, self._own, now), self._taken(_ALL, self._all, now)
        if own is None or common is None:
            return False
        self._known.pop(caller, None)
        if len(self._known) >= _MAX_CALLERS:
            del self._known[next(each for each in self._known if each != _ALL)]
        self._known[caller], self._known[_ALL] = own, common
        return True

    def _taken(self, caller: str, budget: Budget, now: datetime) -> Tokens | None:
        known = self._known.get(caller, Tokens(float(budget.burst), now))
        return known.refilled(budget, now).take()


@dataclass(frozen=True, slots=True)
class ClassRates:
    """Limits for people who announce classes or ask for them.

    Attributes
    ----------
    changes
        Announced, changed and cancelled classes.
    rehearsals
        Rehearsals, each of which takes seconds of a processor.
    requests
        Requests, also withdrawn ones: each is written into the cluster.
    """

    changes: CallRates = field(default_factory=lambda: CallRates(30, timedelta(seconds=20), 200, timedelta(seconds=2)))
    rehearsals: CallRates = field(
        default_factory=lambda: CallRates(20, timedelta(seconds=30), 60, timedelta(seconds=5))
    )
    requests: CallRates = field(default_factory=lambda: CallRates(10, timedelta(minutes=6), 100, timedelta(seconds=10)))
