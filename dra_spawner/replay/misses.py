"""Times at which launches found no warm placeholder: why, and the calendar entry that would have helped."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
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
    """Launches that were expected in that time; 0 where the policy expects none."""
    target: int
    """Placeholders that were wanted at its begin."""
    cause: MissCause

    @property
    def reason(self) -> str:
        """One line for people."""
        minutes = self.ends - self.begins
        return (
            f"{self.misses} of {self.launches} launches waited within {minutes} min;"
            f" {self.expected:.0f} expected, {self.target} placeholders: {self.cause.value}"
        )

    def calendar_entry(self, profile: str) -> Occurrence:
        """The entry that would have announced these launches."""
        begins = datetime_of(self.begins)
        ramp = timedelta(minutes=self.ends - self.begins)
        users = max(self.launches - int(self.expected), self.misses)
        name = f"{users} users at {begins:%Y-%m-%d %H:%M} UTC"
        return Occurrence(
            name, profile, begins, begins + max(ramp, timedelta(hours=1)), users, ADDITIONAL, ramp, "replay"
        )


@dataclass(slots=True)
class _Open:
    """A time that is not over."""

    begins: int
    target: int
    ends: int = 0
    misses: int = 0
    launches: int = 0
    expected: float = 0.0
    later_launches: int = 0
    """Since the last miss."""
    later_expected: float = 0.0
    is_at_most: bool = False
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
        if self.is_at_most:
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
        Minutes without a miss that end a time.
    """

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._heap: list[tuple[int, int, Miss]] = []
        self._open: _Open | None = None

    def minute(self, minute: int, misses: int, launches: int, expected: float, target: int) -> None:
        """Take in a minute.

        Parameters
        ----------
        expected
            Launches expected in it.
        target
            Placeholders wanted at its begin.
        """
        if self._open is None:
            if not misses:
                return
            self._open = _Open(minute, target)
        self._open.add(minute, misses, launches, expected)
        if minute + 1 - self._open.ends >= self._apart:
            self.close()

    def limits(self, *, is_at_most: bool, is_throttled: bool) -> None:
        """Take in what keeps nodes from being ordered in this minute."""
        if self._open is not None:
            self._open.is_at_most |= is_at_most
            self._open.is_throttled |= is_throttled

    def close(self) -> None:
        """End the present time, if any."""
        if self._open is None:
            return
        it = self._open
        found = Miss(it.begins, it.ends, it.misses, it.launches, it.expected, it.target, it.cause)
        self._open = None
        heapq.heappush(self._heap, (found.misses, -found.begins, found))
        if len(self._heap) > _LARGEST:
            heapq.heappop(self._heap)

    def largest(self) -> tuple[Miss, ...]:
        """The times with the most misses, the largest first."""
        return tuple(each for *_, each in sorted(self._heap, key=_size, reverse=True))


def _size(item: tuple[int, int, Miss]) -> tuple[int, int]:
    return item[:2]
