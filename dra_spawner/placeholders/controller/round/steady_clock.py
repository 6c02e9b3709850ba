"""The time from a clock that may be set; it follows a jump only when no earlier time matters any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class SteadyClock:
    """The wall clock's time, which follows jumps of that clock late.

    Parameters
    ----------
    wall
        Seconds since 1970 by a clock that may be set.
    steady
        Monotonic seconds.
    follow
        Seconds of difference below which it follows at once, as clocks are corrected in small steps.
    settle
        Seconds that a jump must last before it counts; longer than any reservation.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        follow: timedelta = timedelta(seconds=2),
        settle: timedelta = timedelta(minutes=2),
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._follow = follow.total_seconds()
        self._settle = settle.total_seconds()
        self._offset = wall() - steady()
        self._jumped_at: float | None = None

    def __call__(self) -> datetime:
        """The time, in UTC."""
        steady = self._steady()
        offset = self._wall() - steady
        if abs(offset - self._offset) <= self._follow:
            self._offset, self._jumped_at = offset, None
        elif self._jumped_at is None:
            self._jumped_at = steady
        elif steady - self._jumped_at >= self._settle:
            self._offset, self._jumped_at = offset, None
        return datetime.fromtimestamp(steady + self._offset, UTC)
