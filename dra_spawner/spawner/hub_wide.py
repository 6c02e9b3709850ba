"""State that all spawners of one hub share, and background work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from logging import Logger
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from dra_spawner.kube.api import KubernetesError
from dra_spawner.owned_tasks import begin_task, run_again

__all__ = [
    "CLEAN_UP_WAIT_SECONDS",
    "forget_hub",
    "hub_wide",
    "in_background",
    "retry_until_done",
    "run_once",
    "run_periodically",
]

#: Seconds that a start or a stop waits for its clean-up, which then continues in the background.
CLEAN_UP_WAIT_SECONDS: Final = 3.0
#: Seconds for which a clean-up is retried; after that the sweep removes the leftovers.
_TRIES_SECONDS: Final = 600.0
_FIRST_WAIT_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 30.0

T = TypeVar("T")

#: State of each event loop, as tests run several hubs in a process.
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Any]] = WeakKeyDictionary()
#: References to running tasks, which Python might otherwise collect.
_tasks: set[asyncio.Task[Any]] = set()


def hub_wide(key: Hashable, make: Callable[[], T]) -> T:
    """Return the shared value of a key; the first call creates it."""
    found = _shared.setdefault(asyncio.get_running_loop(), {})
    if key not in found:
        found[key] = make()
    return cast(T, found[key])


def in_background(work: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
    """Begin a task that runs in the background. A defect is logged with the task's name.

    Parameters
    ----------
    name
        By default that of the work's function.
    """
    task = begin_task(work, name or getattr(work, "__qualname__", "background work"))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


def run_once(key: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Begin a background task that a hub runs only once at a time; a task that has ended is started again.

    After a defect `work` is called again, with back-off.
    """
    running: dict[Hashable, asyncio.Task[None]] = hub_wide("running", dict)
    if key not in running or running[key].done():
        name = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
        running[key] = in_background(run_again(work, name), name)
    return running[key]


def forget_hub() -> None:
    """Drop all shared state and end the background tasks, as a restart of the hub does."""
    for task in _shared.pop(asyncio.get_running_loop(), {}).get("running", {}).values():
        task.cancel()


async def run_periodically(
    work: Callable[[], Awaitable[None]], interval_seconds: Callable[[], float], failed: str, log: Logger
) -> None:
    """Run work periodically.

    Parameters
    ----------
    failed
        Sentence for the log if the work raises an error.
    """
    while True:
        try:
            await work()
        except Exception:  # the next pass may work
            log.exception(failed)
        await asyncio.sleep(interval_seconds())


async def retry_until_done(work: Callable[[], Awaitable[bool]], what: str, log: Logger) -> None:
    """Retry a clean-up until it is done, for ten minutes at most.

    Parameters
    ----------
    work
        Returns whether it is done. A `KubernetesError` means that it is not.
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
        if loop.time() + wait > end:
            log.error("Gave up trying to %s; the sweep will do it", what)
            return
        await asyncio.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
