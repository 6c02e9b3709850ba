"""The task of one informer: it runs while a context is open, and somebody awaits its end."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, NoReturn, Self

from dra_spawner.kube.informers import Informer, wait_informers_ended

#: Wait for the first list, in seconds.
_FIRST_SECONDS: Final = 2.0


class InformerTask:
    """Runs an informer; an asynchronous context manager, whose end ends the informer. Followers are derived of it.

    Parameters
    ----------
    name
        What the informer follows, for the log.
    """

    def __init__(self, informer: Informer, name: str) -> None:
        self._informer = informer
        self._name = name
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None

    async def wait_synced(self) -> None:
        """Wait until the first list, even of nothing, was read."""
        await self._informer.wait_synced()

    async def wait_ended(self) -> NoReturn:
        """Wait until the informer ends by a defect, and raise `InformerEnded`."""
        assert self._task is not None
        await wait_informers_ended((self._task,))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._informer.run(), name=f"informer of {self._name}")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def wait_first_list(informer: Informer, otherwise: str, log: logging.Logger) -> None:
    """Wait a short time for the first list, so that the first round knows it.

    Parameters
    ----------
    otherwise
        What follows without it, for the log.
    """
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            await informer.wait_synced()
    except TimeoutError:
        log.warning("%s: problem=%s", otherwise, informer.status.problem)
