"""The history while a replica leads: it records, and lets others learn from what is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from dra_spawner.common.log_once import LogOnce
from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder
from dra_spawner.history.settings import IN_MEMORY, HistorySettings, default_url
from dra_spawner.history.stored_settings import Writer
from dra_spawner.placeholders.controller.history_feed import HistoryFeed, RecordSinks
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.blocking_calls import BlockingCalls

log = logging.getLogger(__name__)

#: Time between two looks whether the database hangs.
_LOOK_SECONDS: Final = 5.0
#: Limit of the time in which the recorder opens the database and writes its first records, before history is read.
RECORDING_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.2
#: Time for the history of weeks, of which a database may have millions of launches.
_READING_SECONDS: Final = 120.0
_READ_AGAIN_AFTER: Final = timedelta(minutes=15)
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

_Past = TypeVar("_Past")


class HistoryRecording:
    """Records what the controller's watch shows, in a thread of its own, so that a slow database delays nothing.

    It is an asynchronous context manager. At its end it writes the queued records, for two seconds at most.

    Parameters
    ----------
    cluster
        What tells the cluster from others; empty if that is not known.
    """

    def __init__(
        self,
        settings: HistorySettings,
        controller: ScaleAheadController,
        decisions: DecisionLog,
        *,
        cluster: str = "",
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._settings = settings
        self._look_seconds = look_seconds
        self._watch = controller.watch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_warned = False
        self._tasks = OwnedTasks()
        of = controller.settings
        origin = f"{of.shapes_config_map}, cluster {cluster}" if cluster else of.shapes_config_map
        writer = Writer(f"namespace {of.hub_namespace}", origin)
        self.recorder = Recorder(self._open, settings.keep, on_gap=self._on_gap, writer=writer, now=controller.now)
        # Scale-ahead and expected waits learn from the same records, also where no history is recorded.
        recorders = (self.recorder,) if self.is_on else ()
        sinks = RecordSinks((*recorders, controller.scale_ahead, controller.node_ceilings, controller.sessions))
        self.feed = HistoryFeed(controller, decisions, sinks)

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._settings.keep)

    def problems(self) -> tuple[str, ...]:
        """Why nothing is recorded, as sentences."""
        problem = self.recorder.problem
        found = (f"The history is not recorded; all else works: {problem}.",) if problem else ()
        return (*found, *self._tasks.problems())

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Record until the context ends, beginning when the watch has synced."""
        if self.is_on:
            self._loop = asyncio.get_running_loop()
            self.recorder.resume()
        try:
            async with self._tasks as tasks:
                tasks.begin("history", self._begin)
                tasks.begin("history's database", self._follow_database)
                yield
        finally:
            self.feed.end()
            if self.is_on:
                self.recorder.pause()

    async def _begin(self) -> None:
        await self._watch.wait_synced()
        self.feed.begin()

    async def _follow_database(self) -> None:
        """Say once that the database hangs: the recorder's thread cannot, as it waits."""
        was_hanging = False
        while True:
            hanging = self.recorder.hanging
            if hanging and not was_hanging:
                log.error("The history cannot be written; the service goes on without it: %s", hanging)
            elif was_hanging and not hanging and not self.recorder.problem:
                log.info("The history is written again.")
            was_hanging = bool(hanging)
            await asyncio.sleep(self._look_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.recorder.stop)

    # --- in the recorder's thread -------------------------------------------------------------------------------------

    def _open(self) -> HistoryDatabase:
        url = self._settings.url or default_url()
        if url == IN_MEMORY and not self._has_warned:
            self._has_warned = True
            log.warning(
                "The history is in memory and is lost when this process ends: mount a volume at /var/lib/dra-spawner,"
                " or set url in DRASpawnerService.history."
            )
        return HistoryDatabase.open(url, self._settings.user_names, self._settings.key_file)

    def _on_gap(self) -> None:
        # The loop may be closed already.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.feed.repeat)


class HistoryLearning(Generic[_Past]):
    """Learns from the history once in a term, as soon as it can be read.

    A database that is away when the service starts is asked again: without its past, forecasts know no weekday.

    Parameters
    ----------
    what
        What learns, as the subject of a sentence for the log.
    read
        Reads the past; it blocks, in a thread.
    take
        Takes in what was read.
    """

    def __init__(
        self,
        history: HistoryRecording,
        now: Callable[[], datetime],
        what: str,
        read: Callable[[HistoryDatabase], _Past],
        take: Callable[[_Past], Awaitable[None]],
    ) -> None:
        self._history = history
        self._now = now
        self._what = what
        self._read = read
        self._take = take
        self._calls = BlockingCalls(f"{what}: the past", _READING_SECONDS)
        self._log_once = LogOnce(log, f"{what} learns nothing yet from the history, which cannot be read: %s")
        self.begin()

    def begin(self) -> None:
        """Learn anew: a term begins."""
        self._is_over = self._has_waited = False
        self._not_before = _LONG_AGO

    async def learn(self) -> None:
        """Learn, if that is still to do and the history can be read. The first call waits until it is open."""
        if self._is_over:
            return
        self._is_over = True  # also after a defect, which would come again: what is learned twice counts twice
        try:
            self._is_over = await self._learn()
        except Exception:  # a defect here must not end decisions, which go on from what is seen
            log.exception("%s learns nothing from the history.", self._what)

    async def _learn(self) -> bool:
        """Whether nothing is left to learn."""
        if not self._history.is_on:
            return True
        if self._now() < self._not_before or (database := await self._database()) is None:
            return False
        try:
            past = await self._calls(lambda: self._read(database))
        except (SQLAlchemyError, OSError) as error:  # or it does not answer
            self._not_before = self._now() + _READ_AGAIN_AFTER
            self._log_once.present([str(error)])
            return False
        self._log_once.present(())
        await self._take(past)
        return True

    async def _database(self) -> HistoryDatabase | None:
        """The database, once the recorder has written its first records; None if it is not open in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RECORDING_SECONDS):
                while self._is_awaited():  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)  # the recorder's thread has no event for this
        self._has_waited = True
        return self._history.recorder.database

    def _is_awaited(self) -> bool:
        recorder = self._history.recorder
        if recorder.problem:
            return False
        # Callers have other work: they wait once for a database that hangs.
        return bool(recorder.queued) if recorder.database is not None else not self._has_waited
