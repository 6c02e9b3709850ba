"""What all spawners of one hub share, and the work that goes on in the background of a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from logging import Logger
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from dra_spawner.kube.api import KubernetesError

__all__ = [
    "CLEAN_UP_WAIT_SECONDS",
    "forget_hub",
    "hub_wide",
    "in_background",
    "keep_trying",
    "run_for_ever",
    "run_once",
]

#: How long a start or a stop waits for its clean-up before that goes on in the background.
CLEAN_UP_WAIT_SECONDS: Final = 3.0
#: For how long a clean-up is tried while the API server does not answer; after that the sweep finds what is left.
_TRIES_SECONDS: Final = 600.0
_FIRST_WAIT_SECONDS: Final = 0.2
_LONGEST_WAIT_SECONDS: Final = 30.0

T = TypeVar("T")

#: A hub is an event loop; tests run several in a process.
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, Any]] = WeakKeyDictionary()
#: Kept so that they are not garbage-collected.
_tasks: set[asyncio.Task[Any]] = set()


def hub_wide(key: Hashable, make: Callable[[], T]) -> T:
    """Return what all spawners of this hub share under a key; the first that asks makes it."""
    found = _shared.setdefault(asyncio.get_running_loop(), {})
    if key not in found:
        found[key] = make()
    return cast(T, found[key])


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin work that goes on although nobody waits for it."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


def run_once(key: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """Begin background work that a hub has once; a task that has ended is begun anew."""
    running: dict[Hashable, asyncio.Task[None]] = hub_wide("running", dict)
    if key not in running or running[key].done():
        running[key] = in_background(work())
    return running[key]


def forget_hub() -> None:
    """Forget what the spawners of this hub share, as a hub that starts anew does; its background tasks end."""
    for task in _shared.pop(asyncio.get_running_loop(), {}).get("running", {}).values():
        task.cancel()


async def run_for_ever(
    work: Callable[[], Awaitable[None]], interval_seconds: Callable[[], float], failed: str, log: Logger
) -> None:
    """Run work again and again.

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


async def keep_trying(work: Callable[[], Awaitable[bool]], what: str, log: Logger) -> None:
    """Try a clean-up until it is done; the sweep does what ten minutes were not enough for.

    Parameters
    ----------
    work
        Returns whether it is done. A `KubernetesError` means that it is not.
    what
        The clean-up, in words, for the log.
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
            log.error("Gave up to %s; the sweep will", what)
            return
        await asyncio.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
