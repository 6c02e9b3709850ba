"""The clock of an embedded cluster, which can be faster than real time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The clock of a development cluster."""

    def now(self) -> datetime:
        """The present time, with time zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for seconds of this clock."""
        ...


class ScaledClock:
    """Wall time, optionally faster.

    Parameters
    ----------
    speed
        Seconds of cluster time per second of wall time.
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
