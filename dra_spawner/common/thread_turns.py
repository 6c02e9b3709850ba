"""Calls in threads that take turns: a turn ends with its thread, also when its caller was cancelled before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Turn:
    """One turn, in which one call may run in a thread."""

    def __init__(self) -> None:
        self.running: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The result of a call in a thread. A caller that is cancelled goes at once; the call goes on."""
        loop = asyncio.get_running_loop()
        work: asyncio.Future[_T] = loop.run_in_executor(None, partial(call, *args, **kwargs))
        self.running = work
        return await asyncio.shield(work)


class ThreadTurns:
    """Gives one turn at a time.

    ``async with lock: await asyncio.to_thread(...)`` would free the lock when its caller is cancelled, while the thread
    goes on with what the lock protects.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """A turn; the next one begins when its context and its thread have ended."""
        await self._lock.acquire()
        turn = Turn()
        try:
            yield turn
        finally:
            if turn.running is None or turn.running.done():
                self._lock.release()
            else:
                turn.running.add_done_callback(self._end)

    async def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The result of a call in a thread, in a turn of its own."""
        async with self.turn() as turn:
            return await turn.run(call, *args, **kwargs)

    def _end(self, ended: asyncio.Future[Any]) -> None:
        if not ended.cancelled():
            ended.exception()  # its caller is gone
        self._lock.release()
