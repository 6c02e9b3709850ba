"""Recording of the history: a replica records while it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from dra_spawner.common.owned_tasks import OwnedTasks
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder
from dra_spawner.history.settings import IN_MEMORY, HistorySettings, default_url
from dra_spawner.history.stored_settings import Writer
from dra_spawner.placeholders.controller.history_feed import HistoryFeed, RecordSinks
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController

log = logging.getLogger(__name__)

#: Time between two looks whether the database hangs.
_LOOK_SECONDS: Final = 5.0


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
