"""A clock that goes as fast as the real one while the cluster changes, and jumps ahead when nothing changes.

So an hour of waiting passes in no time, while the schedulers' and controllers' own latencies and back-offs
count in full.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime


class JumpingClock:
    """See the module.

    Parameters
    ----------
    begin
        The first time that it shows.
    real
        The time that the API server stamps objects with.
    """

    def __init__(self, begin: datetime, real: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._real = real
        self._jumped_at = [real()]
        self._ahead = [begin - self._jumped_at[0]]
        """How far it is ahead of real time, from each of these moments on."""

    def real_now(self) -> datetime:
        return self._real()

    def now(self) -> datetime:
        return self.at(self._real())

    def at(self, real: datetime) -> datetime:
        """The time that it showed at a moment of real time; for the future, without further jumps."""
        return real + self._ahead[max(bisect_right(self._jumped_at, real) - 1, 0)]

    @property
    def jumps(self) -> int:
        """How often it went ahead."""
        return len(self._ahead) - 1

    def jump_to(self, moment: datetime) -> None:
        """Go ahead; it never goes back."""
        real = self._real()
        if moment <= self.at(real):
            return
        self._jumped_at.append(real)
        self._ahead.append(moment - real)


class StandingClock(JumpingClock):
    """A clock that stands still between its jumps: what takes long on a busy machine takes no time."""

    def at(self, real: datetime) -> datetime:
        last = max(bisect_right(self._jumped_at, real) - 1, 0)
        return self._jumped_at[last] + self._ahead[last]
