"""A report of the service's own history, computed in a thread and cached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.service.blocking_calls import in_daemon_thread

_MAX_AGE: Final = timedelta(minutes=10)
_TIMEOUT_SECONDS: Final = 30.0


class _Report(Protocol):
    @property
    def end(self) -> datetime:
        """End of the reported time: when it was computed."""


ReportT = TypeVar("ReportT", bound=_Report)


class HistoryReport(Generic[ReportT]):
    """Caches the last report for ten minutes.

    Parameters
    ----------
    read
        Computes the report; it may block.
    name
        Name of the thread.
    timeout_seconds
        Limit of a caller's wait.
    """

    def __init__(
        self,
        read: Callable[[HistoryDatabase, datetime], ReportT],
        name: str,
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        self._read = read
        self._name = name
        self._timeout_seconds = timeout_seconds
        self._found: ReportT | None = None
        self._reading: asyncio.Future[ReportT] | None = None

    async def report(self, database: HistoryDatabase, now: datetime) -> ReportT:
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
            self._reading = in_daemon_thread(lambda: self._read(database, now), self._name)
        async with asyncio.timeout(self._timeout_seconds):
            self._found = await asyncio.shield(self._reading)
        return self._found
