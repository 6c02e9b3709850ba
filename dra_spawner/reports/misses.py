"""Times at which launches found no warm placeholder: why, and the calendar entry that would have helped."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import Final

from dra_spawner.calendars.occurrences import ADDITIONAL, Occurrence
from dra_spawner.placeholders.planner.demand.minutes import datetime_of

__all__ = ["LargestMisses", "Miss", "MissCause"]

_LARGEST: Final = 10
#: So many times as many launches as expected are a surprise, not chance.
_SURPRISE: Final = 2.0


class MissCause(StrEnum):
    """Why launches had to wait."""

    NODE_LIMIT = "the limit on nodes was reached"
    START_RATE = "nodes were started one after the other"
    UNEXPECTED = "more launches came than were expected"
    TOO_FEW = "too few placeholders were kept"


@dataclass(frozen=True, slots=True)
class Miss:
    """Launches that had to wait, close to one another."""

    begins: int
    """The minute of the first of them."""
    ends: int
    """The minute after the last."""
    misses: int
    launches: int
    """All launches of that time."""
    expected: float
    """Launches that were expected in that time when nodes for them could still be ordered; 0 where the policy expects
    none."""
    target: int | None
    """Placeholders that were wanted at its begin; None if that is not known."""
    cause: MissCause
    rush_begins: int
    """The minute from which more launches than expected came; up to a lead time before `begins`, as the first of them
    take the placeholders that are there."""
    rush: float
    """Launches from then on, less those that were expected."""

    @property
    def reason(self) -> str:
        """One line for people."""
        minutes = self.ends - self.begins
        placeholders = "" if self.target is None else f", {self.target} placeholders"
        return (
            f"{self.misses} of {self.launches} launches waited within {minutes} min;"
            f" {self.expected:.0f} expected{placeholders}: {self.cause.value}"
        )

    @property
    def is_preventable(self) -> bool:
        """Whether knowing these launches in advance would have helped: no entry brings nodes above their limit."""
        return self.cause is not MissCause.NODE_LIMIT

    def calendar_entry(self, profile: str) -> Occurrence:
        """The entry that would have announced these launches."""
        begins = datetime_of(self.rush_begins)
        ramp = timedelta(minutes=self.ends - self.rush_begins)
        users = max(ceil(self.rush), self.misses)
        name = f"{users} users at {begins:%Y-%m-%d %H:%M} UTC"
        return Occurrence(
            name, profile, begins, begins + max(ramp, timedelta(hours=1)), users, ADDITIONAL, ramp, "report"
        )


@dataclass(slots=True)
class _Open:
    """A time that is not over."""

    begins: int
    target: int | None
    rush_begins: int
    earlier: float
    """Launches of the rush before, less those that were expected."""
    ends: int = 0
    misses: int = 0
    launches: int = 0
    expected: float = 0.0
    later_launches: int = 0
    """Since the last miss."""
    later_expected: float = 0.0
    is_at_limit: bool = False
    is_throttled: bool = False

    def add(self, minute: int, misses: int, launches: int, expected: float) -> None:
        self.later_launches += launches
        self.later_expected += expected
        if misses:
            self.ends = minute + 1
            self.misses += misses
            self.launches += self.later_launches
            self.expected += self.later_expected
            self.later_launches, self.later_expected = 0, 0.0

    @property
    def cause(self) -> MissCause:
        if self.is_at_limit:
            return MissCause.NODE_LIMIT
        if self.is_throttled:
            return MissCause.START_RATE
        if self.launches > _SURPRISE * max(self.expected, 1.0):
            return MissCause.UNEXPECTED
        return MissCause.TOO_FEW


class LargestMisses:
    """Gathers misses into times, and keeps the largest.

    Parameters
    ----------
    apart
        Minutes without a miss that end a time: a lead time.
    """

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._heap: list[tuple[int, int, Miss]] = []
        self._open: _Open | None = None
        self._recent: deque[float] = deque(maxlen=apart)
        """Launches of the last minutes, each less those that were expected."""

    def minute(self, minute: int, misses: int, launches: int, expected: float, target: int | None = None) -> None:
        """Take in a minute.

        Parameters
        ----------
        expected
            Launches that were expected in it, a lead time before.
        target
            Placeholders wanted at its begin; None if that is not known.
        """
        if self._open is None and misses:
            before, earlier = self._rush()
            self._open = _Open(minute, target, minute - before, earlier)
        self._recent.append(launches - expected)
        if self._open is None:
            return
        self._open.add(minute, misses, launches, expected)
        if minute + 1 - self._open.ends >= self._apart:
            self.close()

    def _rush(self) -> tuple[int, float]:
        """For how many minutes more launches than expected have come, and how many more."""
        minutes, most, total = 0, 0.0, 0.0
        for number, more in enumerate(reversed(self._recent), 1):
            total += more
            if total > most:
                minutes, most = number, total
        return minutes, most

    def limits(self, *, is_at_limit: bool, is_throttled: bool) -> None:
        """Take in what keeps nodes from being ordered in this minute."""
        if self._open is not None:
            self._open.is_at_limit |= is_at_limit
            self._open.is_throttled |= is_throttled

    def close(self) -> None:
        """End the present time, if any."""
        if self._open is None:
            return
        it = self._open
        rush = it.earlier + it.launches - it.expected
        found = Miss(it.begins, it.ends, it.misses, it.launches, it.expected, it.target, it.cause, it.rush_begins, rush)
        self._open = None
        heapq.heappush(self._heap, (found.misses, -found.begins, found))
        if len(self._heap) > _LARGEST:
            heapq.heappop(self._heap)

    def largest(self) -> tuple[Miss, ...]:
        """The times with the most misses, the largest first."""
        return tuple(each for *_, each in sorted(self._heap, key=_size, reverse=True))


def _size(item: tuple[int, int, Miss]) -> tuple[int, int]:
    return item[:2]
