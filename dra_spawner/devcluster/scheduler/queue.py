"""Pods that wait for a node: which is next, and which wait for something to change first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dra_spawner.simulator.node_fit import Filter

__all__ = ["Entry", "SchedulingQueue", "Waiting"]

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=5)
"""After so long without any change a pod is tried again all the same."""

PodKey = tuple[str, str]
"""Namespace and name."""


class Waiting(StrEnum):
    """What a pod waits for."""

    TURN = "turn"
    """Only for its turn."""
    BACKOFF = "backoff"
    """Something changed for it; it comes after those that were not tried of late."""
    ERROR_BACKOFF = "errorBackoff"
    """Its last attempt failed: some time has to pass."""
    CHANGE = "change"
    """It fits nowhere: for a change that may help."""
    GATE = "gate"
    """Its claims are not there yet, or it is held back."""


@dataclass(slots=True)
class Entry:
    """One pod in the queue."""

    key: PodKey
    uid: str
    priority: int
    sequence: int
    """Order of arrival."""
    waiting: Waiting
    since: datetime
    attempts: int = 0
    not_before: datetime | None = None
    """When its back-off ends."""
    filters: frozenset[Filter] = field(default_factory=frozenset)
    """Who refused it the last time; empty: nobody in particular."""


class SchedulingQueue:
    """Pods by priority, then by arrival.

    Parameters
    ----------
    now
        The time.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._entries: dict[PodKey, Entry] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, key: PodKey) -> Entry | None:
        """The pod's entry, if it is in the queue."""
        return self._entries.get(key)

    def put(self, key: PodKey, uid: str, priority: int, *, gated: bool) -> Entry:
        """Take in a new pod."""
        self._sequence += 1
        waiting = Waiting.GATE if gated else Waiting.TURN
        entry = self._entries[key] = Entry(key, uid, priority, self._sequence, waiting, self._now())
        return entry

    def remove(self, key: PodKey) -> None:
        """Forget a pod: it has a node, or is gone."""
        self._entries.pop(key, None)

    def gate(self, entry: Entry, gated: bool) -> None:
        """Hold a pod back, or let it in."""
        if gated:
            entry.waiting = Waiting.GATE
        elif entry.waiting is Waiting.GATE:
            entry.waiting = Waiting.TURN

    def pop(self) -> Entry | None:
        """The pod to try now; it stays in the queue until it is removed. None if none is to be tried."""
        now = self._now()
        ready, later = [], []
        for entry in self._entries.values():
            if entry.waiting is Waiting.TURN or (
                entry.waiting in (Waiting.BACKOFF, Waiting.ERROR_BACKOFF) and _is_over(entry.not_before, now)
            ):
                ready.append(entry)
            elif entry.waiting is Waiting.BACKOFF or (
                entry.waiting is Waiting.CHANGE and now - entry.since >= LONGEST_WAIT
            ):
                later.append(entry)
        if ready:
            chosen = min(ready, key=lambda entry: (-entry.priority, entry.sequence))
        elif later:
            chosen = min(later, key=lambda entry: (entry.not_before or now, -entry.priority, entry.sequence))
        else:
            return None
        chosen.attempts += 1
        return chosen

    def refused(self, entry: Entry, filters: frozenset[Filter]) -> None:
        """The pod fits nowhere."""
        self._wait(entry, Waiting.CHANGE, filters)

    def failed(self, entry: Entry) -> None:
        """The attempt failed."""
        self._wait(entry, Waiting.ERROR_BACKOFF, frozenset())

    def changed(self, filters: frozenset[Filter] | None = None) -> None:
        """Something changed that may help pods which these filters refused; None: that may help any."""
        for entry in self._entries.values():
            if entry.waiting is Waiting.CHANGE and (
                filters is None or not entry.filters or not entry.filters.isdisjoint(filters)
            ):
                entry.waiting = Waiting.BACKOFF

    def changed_for(self, entry: Entry) -> None:
        """Something changed that may help this pod."""
        if entry.waiting is Waiting.CHANGE:
            entry.waiting = Waiting.BACKOFF

    def seconds_until_due(self) -> float | None:
        """0 if there is a pod to try, None if there will be none before a change."""
        now = self._now()
        seconds = None
        for entry in self._entries.values():
            match entry.waiting:
                case Waiting.TURN | Waiting.BACKOFF:
                    return 0.0
                case Waiting.ERROR_BACKOFF:
                    due = entry.not_before or now
                case Waiting.CHANGE:
                    due = entry.since + LONGEST_WAIT
                case Waiting.GATE:
                    continue
            wait = max(0.0, (due - now).total_seconds())
            seconds = wait if seconds is None else min(seconds, wait)
        return seconds

    def _wait(self, entry: Entry, waiting: Waiting, filters: frozenset[Filter]) -> None:
        entry.waiting, entry.filters, entry.since = waiting, filters, self._now()
        backoff = min(FIRST_BACKOFF * 2 ** min(entry.attempts - 1, 10), LONGEST_BACKOFF)
        entry.not_before = entry.since + backoff


def _is_over(moment: datetime | None, now: datetime) -> bool:
    return moment is None or moment <= now
