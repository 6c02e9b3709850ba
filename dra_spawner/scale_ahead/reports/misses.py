"""Times at which launches waited, each with its cause and the calendar entry that would have prevented it."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import ceil
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, Occurrence
from dra_spawner.scale_ahead.demand.minutes import datetime_of

_LARGEST: Final = 10
#: Ratio of launches to expected launches from which they are a surprise, not chance.
_SURPRISE: Final = 2.0


class MissCause(StrEnum):
    """Cause of waits, as a clause."""

    NODE_LIMIT = "the limit of nodes was reached"
    NO_NODE_CAME = "everything was in use, and no node came"
    START_RATE = "nodes were started one after the other"
    UNEXPECTED = "too many at once"
    TOO_FEW = "there were too few placeholders"


@dataclass(frozen=True, slots=True)
class Miss:
    """Consecutive launches that waited."""

    begins: int
    """The minute of the first one."""

    ends: int
    """The minute after the last one."""
    misses: int
    launches: int
    """All launches of that time."""
    expected: float
    """Launches in that time, as expected when nodes for them could still be ordered; 0 if the policy does not
    expect launches."""

    target: int | None
    """Target of placeholders at its begin; None if unknown."""
    cause: MissCause
    rush_begins: int
    """The minute from which more launches than expected came. It is up to a lead time before `begins`, as the first
    launches still find placeholders."""

    rush: float
    """Launches from this minute on, minus the expected ones."""

    @property
    def reason(self) -> str:
        """The figures and the cause in one line."""
        minutes = self.ends - self.begins
        number = round(self.expected)
        expected = "none was" if number == 0 else f"{number} {'was' if number == 1 else 'were'}"
        placeholders = "" if self.target is None else f", with {self.target} placeholders"
        return (
            f"{self.launches} started within {minutes} min, {expected} expected{placeholders}; "
            f"{self.misses} waited: {self.cause.value}"
        )

    @property
    def is_preventable(self) -> bool:
        """Whether a calendar entry would have helped: False if no more nodes could come."""
        return self.cause not in (MissCause.NODE_LIMIT, MissCause.NO_NODE_CAME)

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
class _OpenMiss:
    """A miss that may not have ended yet."""

    begins: int
    target: int | None
    rush_begins: int
    earlier: float
    """Launches of the rush before `begins`, minus the expected ones."""
    ends: int = 0
    misses: int = 0
    launches: int = 0
    expected: float = 0.0
    later_launches: int = 0
    """Launches since the last one that waited."""
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
    """Groups waiting launches into misses, and keeps the largest misses.

    Parameters
    ----------
    apart
        Number of minutes without a waiting launch that end a miss: a lead time.
    """

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._heap: list[tuple[int, int, Miss]] = []
        self._open: _OpenMiss | None = None
        self._recent: deque[float] = deque(maxlen=apart)
        """Launches of the last minutes, minus the expected ones."""

    def minute(self, minute: int, misses: int, launches: int, expected: float, target: int | None = None) -> None:
        """Add a minute.

        Parameters
        ----------
        expected
            Launches that were expected one lead time before.
        target
            Target of placeholders at the begin of the minute; None if unknown.
        """
        if self._open is None and misses:
            before, earlier = self._rush()
            self._open = _OpenMiss(minute, target, minute - before, earlier)
        self._recent.append(launches - expected)
        if self._open is None:
            return
        self._open.add(minute, misses, launches, expected)
        if minute + 1 - self._open.ends >= self._apart:
            self.close()

    def _rush(self) -> tuple[int, float]:
        """Minutes since more launches than expected came, and the number of these launches minus the expected ones."""
        minutes, most, total = 0, 0.0, 0.0
        for number, more in enumerate(reversed(self._recent), 1):
            total += more
            if total > most:
                minutes, most = number, total
        return minutes, most

    def limits(self, *, is_at_limit: bool, is_throttled: bool) -> None:
        """Add the limits that prevent orders of nodes in this minute."""
        if self._open is not None:
            self._open.is_at_limit |= is_at_limit
            self._open.is_throttled |= is_throttled

    def close(self) -> None:
        """End the present miss, if there is one."""
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
        """The largest misses, the largest first."""
        return tuple(each for *_, each in sorted(self._heap, key=_size, reverse=True))


def _size(item: tuple[int, int, Miss]) -> tuple[int, int]:
    return item[:2]
