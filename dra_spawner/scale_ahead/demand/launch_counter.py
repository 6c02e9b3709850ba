"""Counts launches and departures by profile group and minute, from reports that may come late or more than once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

#: Minutes after which what was not reported yet does not count any more.
_LATEST: Final = 60


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """What happened in one minute, by group.

    Attributes
    ----------
    hits, misses
        Launches that were bound with a warm placeholder, and without one.
    """

    arrivals: Mapping[str, int] = field(default_factory=dict)
    departures: Mapping[str, int] = field(default_factory=dict)
    hits: Mapping[str, int] = field(default_factory=dict)
    misses: Mapping[str, int] = field(default_factory=dict)

    def of(self, groups: Iterable[str]) -> tuple[int, int, int, int]:
        """Arrivals, departures, hits and misses of some groups together."""
        names = tuple(groups)
        all_of = (self.arrivals, self.departures, self.hits, self.misses)
        arrivals, departures, hits, misses = (sum(counts.get(name, 0) for name in names) for counts in all_of)
        return arrivals, departures, hits, misses


class _Event(Enum):
    ARRIVAL = auto()
    HIT = auto()
    MISS = auto()
    DEPARTURE = auto()


class LaunchCounter:
    """Each event of a launch counts once; one that is reported late counts in the next minute that is taken.

    Parameters
    ----------
    begin
        The first minute that is taken. What happened before is not counted.
    """

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._next = begin
        self._counts: dict[int, dict[_Event, Counter[str]]] = {}
        self._known: dict[tuple[str, _Event], int] = {}

    @property
    def next_minute(self) -> int:
        """The minute that `take` returns next."""
        return self._next

    def add(
        self,
        uid: str,
        group: str,
        asked: int,
        *,
        bound: int | None = None,
        is_warm: bool = False,
        ended: int | None = None,
    ) -> None:
        """Take in what is known of a launch.

        Parameters
        ----------
        uid
            Unique to the launch.
        asked, bound, ended
            Minutes; None is not known, or not yet.
        is_warm
            Whether it was bound with a warm placeholder.
        """
        bound_event = _Event.HIT if is_warm else _Event.MISS
        for event, minute in ((_Event.ARRIVAL, asked), (bound_event, bound), (_Event.DEPARTURE, ended)):
            if minute is not None:
                self._note(event, uid, group, minute)

    def take(self) -> GroupCounts:
        """The counts of `next_minute`, which is over."""
        minute = self._next
        self._next = minute + 1
        if not minute % _LATEST:
            # Events of before are too late to be counted again.
            self._known = {key: at for key, at in self._known.items() if at >= minute - _LATEST}
        found = self._counts.pop(minute, {})
        events = (_Event.ARRIVAL, _Event.DEPARTURE, _Event.HIT, _Event.MISS)
        return GroupCounts(*(found.get(event, Counter()) for event in events))

    def not_taken(self) -> Counter[str]:
        """Launches of minutes that are not taken yet, by group."""
        found: Counter[str] = Counter()
        for counts in self._counts.values():
            found.update(counts.get(_Event.ARRIVAL, {}))
        return found

    def _note(self, event: _Event, uid: str, group: str, minute: int) -> None:
        key = uid, event
        if key in self._known or minute < max(self._begin, self._next - _LATEST):
            return
        self._known[key] = minute
        counts = self._counts.setdefault(max(minute, self._next), {})
        counts.setdefault(event, Counter())[group] += 1
