"""The loop of controllers: a change of the store queues an item at once, and the loop processes it a moment later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from dra_spawner.devcluster.api.storage.changes import WatchEvent
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import Clock

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0


class Controller(ABC):
    """Reconciles the store's objects by a rule.

    Without a loop (in tests), call `attach`, and then `step` until no item is due.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self._changed = asyncio.Event()
        self._detach: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def adopt(self) -> None:
        """Queue all present objects; called once, before the first change."""

    @abstractmethod
    def note(self, event: WatchEvent) -> None:
        """Queue the objects that a change affects; must not write to the store."""

    @abstractmethod
    def step(self) -> float | None:
        """Process one due item.

        Returns
        -------
        float | None
            Seconds until the next item is due; None if none is due before the next change.
        """

    def attach(self) -> None:
        """Begin to follow changes."""
        if self._detach is None:
            self.adopt()
            self._detach = self.store.subscribe(self._noted)

    def start(self) -> None:
        """Begin to follow changes and to process items; needs a running event loop."""
        self.attach()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """Stop without finishing queued items."""
        if self._detach is not None:
            self._detach()
            self._detach = None
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def settle(self, max_steps: int = 100_000) -> None:
        """Process all due items; for tests.

        Raises
        ------
        RuntimeError
            If items are still due after `max_steps` steps.
        """
        for _ in range(max_steps):
            if self.step() != 0:
                return
        raise RuntimeError(f"{type(self).__name__} does not come to rest")

    def _noted(self, event: WatchEvent) -> None:
        self.note(event)
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                seconds = self.step()
            except Exception:  # a defect in one item must not stop the cluster
                log.exception("A controller failed: controller=%s", type(self).__name__)
                seconds = _PAUSE_SECONDS
            if seconds == 0:
                await asyncio.sleep(0)  # give other tasks a turn
            else:
                await self._wait(seconds)

    async def _wait(self, seconds: float | None) -> None:
        """Wait for a change or a timeout."""
        if seconds is None:
            await self._changed.wait()
            return
        waits = [asyncio.ensure_future(self._changed.wait()), asyncio.ensure_future(self.clock.sleep(seconds))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
