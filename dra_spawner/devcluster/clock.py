"""The time of an embedded cluster: as fast as a test wants it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where the parts of a development cluster get their time from."""

    def now(self) -> datetime:
        """The present, with time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds of this clock."""
        ...


class ScaledClock:
    """Wall time, optionally faster.

    Parameters
    ----------
    speed
        Seconds of cluster time per second of wall time: with 60, a node that takes ten minutes to come takes ten
        seconds.
    """

    def __init__(self, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be positive, found {speed!r}")
        self.speed = speed
        self._wall_start = datetime.now(UTC)
        self._monotonic_start = time.monotonic()

    def now(self) -> datetime:
        elapsed = time.monotonic() - self._monotonic_start
        return self._wall_start + timedelta(seconds=elapsed * self.speed)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)


def timestamp(moment: datetime) -> str:
    """A ``metav1.Time``: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """A ``metav1.MicroTime``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
