"""Calendar entries that are near in time, of many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import minute_of, whole_minutes

#: Entries that begin later change nothing: no lead time is longer.
LONGEST_LEAD: Final = timedelta(hours=12)
_HOUR: Final = 60


class NearEntries:
    """Calendar entries that are near in time, looked up once an hour; asked in the order of time."""

    def __init__(self, occurrences: Sequence[Occurrence]) -> None:
        self._occurrences = sorted(occurrences, key=lambda each: each.begins.timestamp())
        self._begins = [minute_of(each.begins) for each in self._occurrences]
        self._longest = max((minute_of(each.ends) - minute_of(each.begins) for each in self._occurrences), default=0)
        self._found: tuple[Occurrence, ...] = ()
        self._until = 0

    def near(self, now: int) -> tuple[Occurrence, ...]:
        """Entries that begin within the longest lead time, or have begun and not ended."""
        if now >= self._until:
            first = bisect_left(self._begins, now - self._longest)
            last = bisect_left(self._begins, now + whole_minutes(LONGEST_LEAD) + _HOUR)
            self._found = tuple(self._occurrences[first:last])
            self._until = now + _HOUR
        return self._found
