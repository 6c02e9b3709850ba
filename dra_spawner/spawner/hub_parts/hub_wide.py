"""What all spawners of one hub share, and the hub's background work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from logging import Logger
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from dra_spawner.common.owned_tasks import begin_task, note_failure, run_again
from dra_spawner.kube.client.api import KubernetesError

#: Seconds that a start or a stop waits for its clean-up, which then continues in the background.
CLEAN_UP_WAIT_SECONDS: Final = 3.0
#: Seconds for which a clean-up is retried; after that the sweep removes the leftovers, but for pods.
_TRIES_SECONDS: Final = 600.0
_FIRST_WAIT_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 30.0

T = TypeVar("T")

#: The state of each event loop, as tests run several hubs in a process.
_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, HubWide] = WeakKeyDictionary()


class HubWide:
    """What all spawners of one hub share, and the hub's background work. The hub's event loop owns it.

    At the end of the hub it cancels and awaits the background tasks, which delays the end by seconds. For that it has a
    task of its own, as JupyterHub has no hook for its end: it cancels all tasks, and waits for them.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._owner: asyncio.Task[None] | None = None

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the shared value of a key; the first call creates it."""
        if key not in self._values:
            self._values[key] = make()
        return cast(T, self._values[key])

    def begin(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin a task that runs in the background until the hub ends.

        Parameters
        ----------
        name
            Name of the task in the log and in the metric of failures, without names of users.
        """
        if self._owner is None:
            self._owner = asyncio.get_running_loop().create_task(self._own(), name="background work of the hub")
        task = begin_task(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def run_once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Begin a background task that a hub runs only once at a time; a task that has ended is started again.

        After a defect `work` is called again, with back-off.
        """
        running = self._running
        if key not in running or running[key].done():
            name = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
            running[key] = self.begin(run_again(work, name), name)
        return running[key]

    def end(self) -> None:
        """Cancel all tasks, as the end of the hub does."""
        if self._owner is not None:
            self._owner.cancel()
        self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        for each in self._tasks:
            each.cancel()

    async def _own(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_future()
        finally:
            # JupyterHub has cancelled the tasks, too. What runs now is the clean-up of a start that ends with the hub;
            # the sweep does the rest.
            end = loop.time() + CLEAN_UP_WAIT_SECONDS
            while self._tasks:
                if not (await asyncio.wait(self._tasks, timeout=max(end - loop.time(), 0.0)))[0]:
                    self._cancel_tasks()
                    await asyncio.wait(self._tasks)


def this_hub() -> HubWide:
    """The state of the hub whose event loop runs."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = HubWide()
    return found


def forget_hub() -> None:
    """Drop all shared state and end the background tasks, as a restart of the hub does."""
    hub = _hubs.pop(asyncio.get_running_loop(), None)
    if hub is not None:
        hub.end()


async def run_periodically(
    work: Callable[[], Awaitable[None]], interval_seconds: Callable[[], float], failed: str, log: Logger
) -> None:
    """Run work periodically, also after an error of the API server. A defect is the matter of the task's owner.

    Parameters
    ----------
    failed
        Sentence for the log if the API server has not answered.
    """
    while True:
        try:
            await work()
        except KubernetesError as error:  # the next pass may work
            log.warning("%s: %s", failed, error)
        await asyncio.sleep(interval_seconds())


async def retry_until_done(work: Callable[[], Awaitable[bool]], what: str, log: Logger) -> None:
    """Retry a clean-up until it is done; also after a defect, which is logged and counted.

    It is given up after ten minutes, but not while the API server is away: the clean-up may be the deletion of a pod.

    Parameters
    ----------
    work
        Returns whether it is done. An error means that it is not.
    what
        Description of the clean-up, for the log.
    """
    loop = asyncio.get_running_loop()
    end, wait = loop.time() + _TRIES_SECONDS, _FIRST_WAIT_SECONDS
    while True:
        try:
            if await work():
                return
        except KubernetesError as error:
            log.warning("Could not %s, trying again: %s", what, error)
            if error.retryable:
                end = loop.time() + _TRIES_SECONDS
        except Exception as error:
            task = asyncio.current_task()
            note_failure(task.get_name() if task is not None else what, error, log, f" to {what}, and tries again")
        if loop.time() + wait > end:
            log.error("Gave up trying to %s; the sweep will do it", what)
            return
        await asyncio.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
