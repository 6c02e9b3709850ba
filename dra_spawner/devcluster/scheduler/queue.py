"""The queue of pending pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from dra_spawner.simulator.scheduler.node_fit import Filter

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=5)
"""Time after which an unschedulable pod is tried again without a change."""

PodKey = tuple[str, str]
"""Namespace and name."""


class QueueState(StrEnum):
    """State of a pod in the queue."""

    ACTIVE = "active"
    """It waits for its turn."""
    BACKOFF = "backoff"
    """A change may help it; it is tried after its back-off."""
    ERROR_BACKOFF = "errorBackoff"
    """Its last attempt failed; it is tried after its back-off."""
    UNSCHEDULABLE = "unschedulable"
    """It fits nowhere; it waits for a change that may help it."""
    GATED = "gated"
    """Its claims are missing, or it has scheduling gates."""


@dataclass(slots=True)
class QueuedPod:
    """A pod in the queue."""

    key: PodKey
    uid: str
    priority: int
    sequence: int
    """Order of arrival."""
    state: QueueState
    since: datetime
    attempts: int = 0
    not_before: datetime | None = None
    """End of its back-off."""
    filters: frozenset[Filter] = field(default_factory=frozenset)
    """Filters that refused it last."""


class SchedulingQueue:
    """Pods by priority, then by arrival."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._entries: dict[PodKey, QueuedPod] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(list(self._entries.values()))

    def get(self, key: PodKey) -> QueuedPod | None:
        """The pod's entry, if it is in the queue."""
        return self._entries.get(key)

    def put(self, key: PodKey, uid: str, priority: int, *, gated: bool) -> QueuedPod:
        """Add a new pod."""
        self._sequence += 1
        state = QueueState.GATED if gated else QueueState.ACTIVE
        entry = self._entries[key] = QueuedPod(key, uid, priority, self._sequence, state, self._now())
        return entry

    def remove(self, key: PodKey) -> None:
        """Remove a pod that has a node or is gone."""
        self._entries.pop(key, None)

    def gate(self, entry: QueuedPod, gated: bool) -> None:
        """Set whether a pod is gated."""
        if gated:
            entry.state = QueueState.GATED
        elif entry.state is QueueState.GATED:
            entry.state = QueueState.ACTIVE

    def pop(self) -> QueuedPod | None:
        """The pod to try now, which stays in the queue until it is removed; None if there is none."""
        now = self._now()
        ready, later = [], []
        for entry in self._entries.values():
            if entry.state is QueueState.ACTIVE or (
                entry.state in (QueueState.BACKOFF, QueueState.ERROR_BACKOFF) and _is_over(entry.not_before, now)
            ):
                ready.append(entry)
            elif entry.state is QueueState.BACKOFF or (
                entry.state is QueueState.UNSCHEDULABLE and now - entry.since >= LONGEST_WAIT
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

    def refused(self, entry: QueuedPod, filters: frozenset[Filter]) -> None:
        """Note that the pod fits nowhere."""
        self._wait(entry, QueueState.UNSCHEDULABLE, filters)

    def failed(self, entry: QueuedPod) -> None:
        """Note that the pod's attempt failed."""
        self._wait(entry, QueueState.ERROR_BACKOFF, frozenset())

    def changed(self, filters: frozenset[Filter] | None = None) -> None:
        """Note a change that may help pods that these filters refused; None for all pods."""
        for entry in self._entries.values():
            if entry.state is QueueState.UNSCHEDULABLE and (
                filters is None or not entry.filters or not entry.filters.isdisjoint(filters)
            ):
                entry.state = QueueState.BACKOFF

    def changed_for(self, entry: QueuedPod) -> None:
        """Note a change that may help this pod."""
        if entry.state is QueueState.UNSCHEDULABLE:
            entry.state = QueueState.BACKOFF

    def seconds_until_due(self) -> float | None:
        """Seconds until a pod can be tried; None if no pod can be tried before a change."""
        now = self._now()
        seconds = None
        for entry in self._entries.values():
            match entry.state:
                case QueueState.ACTIVE | QueueState.BACKOFF:
                    return 0.0
                case QueueState.ERROR_BACKOFF:
                    due = entry.not_before or now
                case QueueState.UNSCHEDULABLE:
                    due = entry.since + LONGEST_WAIT
                case QueueState.GATED:
                    continue
            wait = max(0.0, (due - now).total_seconds())
            seconds = wait if seconds is None else min(seconds, wait)
        return seconds

    def _wait(self, entry: QueuedPod, state: QueueState, filters: frozenset[Filter]) -> None:
        entry.state, entry.filters, entry.since = state, filters, self._now()
        backoff = min(FIRST_BACKOFF * 2 ** min(entry.attempts - 1, 10), LONGEST_BACKOFF)
        entry.not_before = entry.since + backoff


def _is_over(moment: datetime | None, now: datetime) -> bool:
    return moment is None or moment <= now
