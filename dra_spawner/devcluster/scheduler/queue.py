"""The queue of pending pods."""

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
"""Longest time until a pod is tried again without a change."""

PodKey = tuple[str, str]
"""Namespace and name."""


class Waiting(StrEnum):
    """Why a pod is not tried now."""

    TURN = "turn"
    """Waits for its turn."""
    BACKOFF = "backoff"
    """A change may help; it comes after its back-off."""
    ERROR_BACKOFF = "errorBackoff"
    """Its last attempt failed; it comes after its back-off."""
    CHANGE = "change"
    """It fits nowhere; it waits for a change that may help."""
    GATE = "gate"
    """Its claims are missing, or it has scheduling gates."""


@dataclass(slots=True)
class Entry:
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
    """Filters that refused it last."""


class SchedulingQueue:
    """Pods by priority, then by arrival."""

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
        """Add a new pod."""
        self._sequence += 1
        waiting = Waiting.GATE if gated else Waiting.TURN
        entry = self._entries[key] = Entry(key, uid, priority, self._sequence, waiting, self._now())
        return entry

    def remove(self, key: PodKey) -> None:
        """Remove a pod that has a node or is gone."""
        self._entries.pop(key, None)

    def gate(self, entry: Entry, gated: bool) -> None:
        """Set whether a pod is gated."""
        if gated:
            entry.waiting = Waiting.GATE
        elif entry.waiting is Waiting.GATE:
            entry.waiting = Waiting.TURN

    def pop(self) -> Entry | None:
        """The pod to try now, which stays in the queue until it is removed; None if there is none."""
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
        self._wait(entry, Waiting.ERROR_BACKOFF, frozenset())

    def changed(self, filters: frozenset[Filter] | None = None) -> None:
        """Note a change that may help pods that these filters refused; None for all pods."""
        for entry in self._entries.values():
            if entry.waiting is Waiting.CHANGE and (
                filters is None or not entry.filters or not entry.filters.isdisjoint(filters)
            ):
                entry.waiting = Waiting.BACKOFF

    def changed_for(self, entry: Entry) -> None:
        """Note a change that may help this pod."""
        if entry.waiting is Waiting.CHANGE:
            entry.waiting = Waiting.BACKOFF

    def seconds_until_due(self) -> float | None:
        """Seconds until a pod can be tried; None if none can be before a change."""
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
