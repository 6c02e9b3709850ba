"""The loop of those that react to changes in the store: they take note at once, and act a moment later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from dra_spawner.devcluster.api.changes import WatchEvent
from dra_spawner.devcluster.api.store import Store
from dra_spawner.devcluster.clock import Clock

__all__ = ["Controller"]

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0


class Controller(ABC):
    """Brings the store's objects in line with a rule, as long as it is started.

    Without a loop (in tests), call `attach` and then `step` until it has nothing more to do.

    Parameters
    ----------
    store
        The objects.
    clock
        For retries.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self._changed = asyncio.Event()
        self._detach: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    def adopt(self) -> None:
        """Take note of all objects that there are; called once, before any change is noted."""

    @abstractmethod
    def note(self, event: WatchEvent) -> None:
        """Take note of a change; must not write to the store."""

    @abstractmethod
    def step(self) -> float | None:
        """Do one thing that is due.

        Returns
        -------
        float | None
            Seconds until something else is due: 0 if at once, None if nothing is before the next change.
        """

    def attach(self) -> None:
        """Begin to take note."""
        if self._detach is None:
            self.adopt()
            self._detach = self.store.subscribe(self._noted)

    def start(self) -> None:
        """Begin to take note and to act; needs a running event loop."""
        self.attach()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=type(self).__name__)

    async def stop(self) -> None:
        """End; what is not done stays undone."""
        if self._detach is not None:
            self._detach()
            self._detach = None
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def settle(self, most_steps: int = 100_000) -> None:
        """Do all that is due now; for tests.

        Raises
        ------
        RuntimeError
            If that does not end.
        """
        for _ in range(most_steps):
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
            except Exception:  # a defect of ours: the cluster goes on without this one thing
                log.exception("A controller failed: controller=%s", type(self).__name__)
                seconds = _PAUSE_SECONDS
            if seconds == 0:
                await asyncio.sleep(0)  # others want to run, too
            else:
                await self._wait(seconds)

    async def _wait(self, seconds: float | None) -> None:
        """Until something changes, or some time has passed."""
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
