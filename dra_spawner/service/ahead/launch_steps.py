"""Launches and their waits of the last hours or days, in equal steps, from the history."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import Launch
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.reports.history_misses import has_waited
from dra_spawner.service.blocking_calls import BlockingCalls

_ANSWER_SECONDS: Final = 20.0
#: Part of a window's step after which it is read again.
_FRESH_PART: Final = 15


class LaunchesUnavailable(Exception):
    """Raised where the history cannot be read; the message is a sentence."""


@dataclass(slots=True)
class LaunchStep:
    """Launches that were asked for in one step.

    Attributes
    ----------
    waits
        Seconds from the request until each server had a node, in increasing order; for a pending one, until now.
    """

    launches: int = 0
    waited: int = 0
    waits: list[float] = field(default_factory=list)

    def quantile(self, part: float) -> float | None:
        """A quantile of the waits in seconds: one that occurred; None without any."""
        return self.waits[min(int(part * len(self.waits)), len(self.waits) - 1)] if self.waits else None


Steps: TypeAlias = dict[tuple[str, int], LaunchStep]
"""By choice and number of the step."""


def launch_steps(launches: Iterable[Launch], begin: int, minutes: int, now: datetime) -> Steps:
    """Launches by choice and step.

    Parameters
    ----------
    begin
        The first minute of step 0.
    minutes
        Duration of a step.
    """
    found: Steps = {}
    for launch in launches:
        if not launch.is_demand:
            continue
        key = launch.choice or launch.profile, (minute_of(launch.asked) - begin) // minutes
        step = found.setdefault(key, LaunchStep())
        step.launches += 1
        step.waited += has_waited(launch, now)
        until = launch.bound or (now if launch.ended is None else None)
        if until is not None:
            insort(step.waits, max((until - launch.asked).total_seconds(), 0.0))
    return found


class LaunchSteps:
    """Reads the history in a thread, and remembers the answer for a part of a step."""

    def __init__(self, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._ask = BlockingCalls("timeline", answer_seconds)
        self._reading = asyncio.Lock()
        self._known: dict[tuple[int, int], tuple[datetime, Steps]] = {}

    async def read(self, database: HistoryDatabase, begin: int, minutes: int, now: datetime) -> Steps:
        """The launches from minute `begin` on.

        Raises
        ------
        LaunchesUnavailable
        """
        async with self._reading:
            return await self._read(database, begin, minutes, now)

    async def _read(self, database: HistoryDatabase, begin: int, minutes: int, now: datetime) -> Steps:
        key = begin, minutes
        known = self._known.get(key)
        if known is not None and now - known[0] < timedelta(minutes=minutes) / _FRESH_PART:
            return known[1]
        try:
            found = await self._ask(
                lambda: launch_steps(database.launches(datetime_of(begin), now), begin, minutes, now)
            )
        except TimeoutError:
            raise LaunchesUnavailable("The history does not answer in time. Try again in a minute.") from None
        except SQLAlchemyError:
            raise LaunchesUnavailable("The history is not available: it cannot be read.") from None
        # Windows that are over are not asked for again.
        self._known = {each: value for each, value in self._known.items() if now - value[0] < timedelta(hours=1)}
        self._known[key] = now, found
        return found
