"""A queue without duplicates; failed keys return after a delay."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

__all__ = ["WorkQueue"]

K = TypeVar("K", bound=Hashable)

# client-go's default for controllers
FIRST_DELAY = timedelta(milliseconds=5)
LONGEST_DELAY = timedelta(seconds=1000)


class WorkQueue(Generic[K]):
    """Keys in the order of their addition; failed keys return after a delay that doubles."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._ready: dict[K, None] = {}
        self._later: list[tuple[datetime, int, K]] = []
        self._failures: dict[K, int] = {}
        self._sequence = 0

    def add(self, key: K) -> None:
        """Add a key."""
        self._ready[key] = None

    def retry(self, key: K) -> None:
        """Add a failed key with a delay, which doubles each time."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(FIRST_DELAY * 2 ** min(failures, 30), LONGEST_DELAY)
        self._sequence += 1
        heapq.heappush(self._later, (self._now() + delay, self._sequence, key))

    def forget(self, key: K) -> None:
        """Reset the delay of a key after success."""
        self._failures.pop(key, None)

    def pop(self) -> K | None:
        """The next due key; None if there is none."""
        while self._later and self._later[0][0] <= self._now():
            self.add(heapq.heappop(self._later)[2])
        if not self._ready:
            return None
        key = next(iter(self._ready))
        del self._ready[key]
        return key

    def seconds_until_due(self) -> float | None:
        """Seconds until a key is due, 0 if a key is due now; None without keys."""
        if self._ready:
            return 0.0
        if not self._later:
            return None
        return max(0.001, (self._later[0][0] - self._now()).total_seconds())
