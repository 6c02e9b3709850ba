"""What days of a queue have in common, with the simulated scheduler and with a real one: sessions, and figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import log
from random import Random
from typing import Final

__all__ = ["QueueCounts", "session_length", "time_until_taken"]

_SPREAD: Final = 0.6


@dataclass
class QueueCounts:
    """What is counted and measured in each day of a queue."""

    longest_idle: float = 0.0
    """Seconds for which a device was idle while somebody waited; in virtual time."""
    longest_hold: float = 0.0
    longest_wait: float = 0.0
    taken: int = 0
    expired: int = 0
    left: int = 0
    unserved: int = 0
    inside: int = 0
    early: int = 0
    late: int = 0

    @property
    def share_inside(self) -> float:
        judged = self.inside + self.early + self.late
        return self.inside / judged if judged else 0.0


def session_length(random: Random) -> timedelta:
    """About an hour; few take minutes, few take four hours."""
    return timedelta(hours=min(random.lognormvariate(-(_SPREAD**2) / 2, _SPREAD), 6.0))


def time_until_taken(random: Random) -> timedelta:
    """About a minute, and less than a hold lasts."""
    return timedelta(seconds=min(-log(1.0 - random.random()) * 60.0, 280.0))
