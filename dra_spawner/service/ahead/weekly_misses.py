"""The miss report of the service's own history, computed in a thread and cached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.scale_ahead.reports.history_misses import MissReport, read_miss_report
from dra_spawner.scale_ahead.reports.plots import timeline_svg
from dra_spawner.scale_ahead.reports.timeline import steps
from dra_spawner.service.blocking_calls import in_daemon_thread

__all__ = ["WeeklyMisses"]

_MAX_AGE: Final = timedelta(minutes=10)
_TIMEOUT_SECONDS: Final = 30.0
#: One step an hour.
_MAX_STEPS: Final = 7 * 24 + 1


class WeeklyMisses:
    """Caches the last report for ten minutes.

    Parameters
    ----------
    read
        Computes the report; it may block.
    timeout_seconds
        Limit of a caller's wait.
    """

    def __init__(
        self,
        read: Callable[[HistoryDatabase, datetime], MissReport] = read_miss_report,
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._read = read
        self._timeout_seconds = timeout_seconds
        self._found: MissReport | None = None
        self._reading: asyncio.Future[MissReport] | None = None
        self._picture: tuple[MissReport, str] | None = None

    async def report(self, database: HistoryDatabase, now: datetime) -> MissReport:
        """The report, at most ten minutes old.

        Raises
        ------
        sqlalchemy.exc.SQLAlchemyError
            If the database cannot be reached.
        TimeoutError
            If the database does not answer in time; the next caller waits for the same answer.
        """
        if self._found is not None and now - self._found.end < _MAX_AGE:
            return self._found
        reading = self._reading
        if reading is not None and reading.done() and reading.exception() is None:
            # Of a caller whose timeout ended first.
            self._found, self._reading = reading.result(), None
            if now - self._found.end < _MAX_AGE:
                return self._found
        if self._reading is None or self._reading.done():
            self._reading = in_daemon_thread(lambda: self._read(database, now), "misses")
        async with asyncio.timeout(self._timeout_seconds):
            self._found = await asyncio.shield(self._reading)
        return self._found

    async def picture(self, report: MissReport) -> str:
        """The timeline of a report as inline SVG, drawn once; empty without launches."""
        if self._picture is None or self._picture[0] is not report:
            self._picture = report, await asyncio.to_thread(_drawn, report)
        return self._picture[1]


def _drawn(report: MissReport) -> str:
    if not report.launches:
        return ""
    found = steps(report.timeline, most=_MAX_STEPS)
    return timeline_svg(found, UTC, label="Launches of the last seven days")
