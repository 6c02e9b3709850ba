"""An event loop on a thread of its own, for work that goes on while a synchronous test runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for callers on any thread or loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T], timeout_seconds: float = 300.0) -> T:
        """Run `work` there and wait for it here; not from another event loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_seconds)
        except BaseException:
            future.cancel()
            raise

    async def await_(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and await it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
