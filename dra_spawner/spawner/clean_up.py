"""What goes on in the background of a hub so that nothing is left behind: clean-ups of failed starts, and the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from logging import Logger
from typing import Any, ClassVar

from dra_spawner.kube.api import KubernetesApi, KubernetesError
from dra_spawner.spawner.objects.leftovers import Kind, Sweep
from dra_spawner.spawner.objects.start_objects import StartObjects, utc_now

#: How long a failing start waits for its clean-up before that goes on in the background.
_CLEAN_UP_WAIT_SECONDS = 3
#: For how long a clean-up is tried while the API server does not answer; after that the sweep finds what is left.
_CLEAN_UP_TRIES_SECONDS = 600


class BackgroundRemoval:
    """Clean-ups that go on after their start ended."""

    #: Kept so that they are not garbage-collected.
    _tasks: ClassVar[set[asyncio.Task[Any]]] = set()

    @classmethod
    async def begin(cls, objects: StartObjects, pod_name: str, log: Logger) -> None:
        """Remove what a start made; returns when that is done, or goes on in the background."""
        task = asyncio.create_task(_remove(objects, pod_name, log))
        cls._tasks.add(task)
        task.add_done_callback(cls._tasks.discard)
        await asyncio.wait({task}, timeout=_CLEAN_UP_WAIT_SECONDS)


async def _remove(objects: StartObjects, pod_name: str, log: Logger) -> None:
    wait = 0.5
    loop = asyncio.get_running_loop()
    end = loop.time() + _CLEAN_UP_TRIES_SECONDS
    while True:
        try:
            await objects.remove(pod_name)
            return
        except KubernetesError as error:
            if loop.time() + wait > end:
                log.error("Gave up removing what a start left; the sweep will: %s", error)
                return
        await asyncio.sleep(wait)
        wait = min(wait * 2, 30.0)


class Sweeper:
    """Looks for leftovers in one namespace, or in all, again and again.

    Parameters
    ----------
    connect
        Gives the connection for each look.
    namespace
        ``None`` for all.
    older_than
        Younger objects that do not say otherwise may belong to a start that is under way.
    """

    #: Kinds of companion objects that starts of this process made.
    companion_kinds: ClassVar[set[Kind]] = set()

    def __init__(
        self,
        connect: Callable[[], KubernetesApi],
        namespace: str | None,
        older_than: timedelta,
        interval_seconds: float,
        log: Logger,
    ) -> None:
        self._connect = connect
        self._namespace = namespace
        self._older_than = older_than
        self._interval_seconds = interval_seconds
        self._log = log

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            try:
                await self._sweep()
            except Exception:
                self._log.exception("Could not look for what was left behind")
            await asyncio.sleep(self._interval_seconds)

    async def _sweep(self) -> None:
        sweep = Sweep(self._connect(), self._namespace, self._older_than, utc_now())
        await sweep.run(self.companion_kinds)
        for done in sweep.done:
            self._log.info("Swept what was left behind: %s", done)
        for error in sweep.errors:
            self._log.warning("Could not sweep everything that was left behind: %s", error)
