"""Launches and departures of one profile group, counted by the minute."""

from __future__ import annotations

from array import array
from operator import sub
from typing import Final

from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_WEEK

#: So many that a class is known after a break of some weeks.
_RETAINED: Final = 8 * MINUTES_A_WEEK


class MinuteCounts:
    """Counts of the last weeks, as running totals: the sum over any span takes two look-ups.

    Parameters
    ----------
    begin
        The first minute that is counted.
    retained
        Minutes that are kept at least; up to a quarter more is kept before the oldest are dropped. Sixteen bytes each.
    """

    def __init__(self, begin: int, retained: int = _RETAINED) -> None:
        self._first = begin
        self._retained = retained
        self._arrivals = array("q", [0])
        self._growth = array("q", [0])

    @property
    def begin(self) -> int:
        """The first minute that is known."""
        return self._first

    @property
    def end(self) -> int:
        """The minute after the last that was recorded."""
        return self._first + len(self._arrivals) - 1

    def record(self, minute: int, arrivals: int, departures: int = 0) -> None:
        """Add the counts of a minute that is over. Minutes left out since the last one count zero.

        Raises
        ------
        ValueError
            If the minute was recorded before, or a count is negative.
        """
        missing = minute - self.end
        if missing < 0:
            raise ValueError(f"minute {minute} comes after minute {self.end - 1}, which is later")
        if arrivals < 0 or departures < 0:
            raise ValueError(f"minute {minute} has {arrivals} arrivals and {departures} departures; none is negative")
        if missing > self._retained:
            self._forget_all(minute)
        elif missing:
            self._arrivals.extend([self._arrivals[-1]] * missing)
            self._growth.extend([self._growth[-1]] * missing)
        self._arrivals.append(self._arrivals[-1] + arrivals)
        self._growth.append(self._growth[-1] + arrivals - departures)
        surplus = len(self._arrivals) - 1 - self._retained
        if surplus > self._retained // 4:
            del self._arrivals[:surplus]
            del self._growth[:surplus]
            self._first += surplus

    def knows(self, minute: int) -> bool:
        """Whether a minute, and all from it until the end, were recorded."""
        return minute >= self._first

    def arrivals(self, begin: int, end: int) -> int:
        """Launches from the minute `begin` up to, not including, the minute `end`; unknown minutes count zero."""
        return self._between(self._arrivals, begin, end)

    def growth(self, begin: int, end: int) -> int:
        """Launches less departures, over the same span."""
        return self._between(self._growth, begin, end)

    def largest_growth(self, end: int, minutes: int) -> int:
        """The largest growth of the number of servers in at most so many minutes that end at `end`."""
        last = self._index(end)
        return self._growth[last] - min(self._growth[max(last - minutes, 0) : last + 1])

    def peak_growth(self, first: int, last: int, minutes: int) -> int:
        """The largest growth over spans of so many minutes that begin from `first` to `last`; never negative."""
        begin, end = self._index(first), self._index(last)
        early = self._growth[begin : end + 1]
        late = self._growth[begin + minutes : end + 1 + minutes]
        return max(0, max(map(sub, late, early), default=0))

    def _between(self, totals: array[int], begin: int, end: int) -> int:
        if end <= begin:
            return 0
        return totals[self._index(end)] - totals[self._index(begin)]

    def _index(self, minute: int) -> int:
        return min(max(minute - self._first, 0), len(self._arrivals) - 1)

    def _forget_all(self, minute: int) -> None:
        self._first = minute
        self._arrivals = array("q", [0])
        self._growth = array("q", [0])
