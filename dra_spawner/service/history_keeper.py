"""The history of a replica: what it sees is recorded while it leads."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.history.recorder import Recorder
from dra_spawner.history.settings import IN_MEMORY, HistorySettings, default_url
from dra_spawner.placeholders.controller.history_feed import HistoryFeed, RecordSinks
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController

__all__ = ["HistoryKeeper"]

log = logging.getLogger(__name__)


class HistoryKeeper:
    """Records what the controller's watch shows, in a thread of its own, so that nothing waits for it.

    As an asynchronous context manager it writes at the end what is queued, for two seconds at most.
    """

    def __init__(self, settings: HistorySettings, controller: PlaceholderController, decisions: DecisionLog) -> None:
        self._settings = settings
        self._watch = controller.watch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_told = False
        self.recorder = Recorder(self._open, settings.keep, on_gap=self._on_gap, now=controller.now)
        # Scale-ahead learns from the same records, also where none are kept.
        kept = (self.recorder,) if self.is_kept else ()
        self.feed = HistoryFeed(
            controller, decisions, RecordSinks((*kept, controller.scale_ahead, controller.node_ceilings))
        )

    @property
    def is_kept(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._settings.keep)

    def problems(self) -> tuple[str, ...]:
        """Why nothing is recorded, as sentences."""
        if not self.recorder.problem:
            return ()
        return (f"The history is not recorded; all else works: {self.recorder.problem}.",)

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Record, from when the watch has synced until the context ends."""
        if self.is_kept:
            self._loop = asyncio.get_running_loop()
            self.recorder.resume()
        begin = asyncio.create_task(self._begin(), name="history")
        try:
            yield
        finally:
            begin.cancel()
            self.feed.end()
            if self.is_kept:
                self.recorder.pause()

    async def _begin(self) -> None:
        await self._watch.wait_synced()
        self.feed.begin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.recorder.stop)

    # --- in the recorder's thread -------------------------------------------------------------------------------------

    def _open(self) -> HistoryDatabase:
        url = self._settings.url or default_url()
        if url == IN_MEMORY and not self._was_told:
            self._was_told = True
            log.warning(
                "The history is in memory and ends with this process: mount a volume at /var/lib/dra-spawner, or set"
                " DRASpawnerService.history's url."
            )
        return HistoryDatabase.open(url, self._settings.user_names, self._settings.key_file)

    def _on_gap(self) -> None:
        # A loop that is closed needs nothing any more.
        with contextlib.suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self.feed.repeat)
