"""Calls that block, such as questions to a database: nothing waits for one that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def in_daemon_thread(call: Callable[[], _Result], name: str) -> asyncio.Future[_Result]:
    """Begin a call in a thread of its own, which does not keep the process from its end as a pool's threads do."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Result] = loop.create_future()
    # Callers may be gone when it fails.
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(settle_answer: Callable[[Any], None], value: object) -> None:
        if not answer.done():
            settle_answer(value)

    def work() -> None:
        settle_answer: Callable[[Any], None] = answer.set_result
        value: object
        try:
            value = call()
        except Exception as error:  # the caller gets it
            settle_answer, value = answer.set_exception, error
        # A loop that is closed needs no answer any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, settle_answer, value)

    threading.Thread(target=work, name=name, daemon=True).start()
    return answer


class BlockingCalls:
    """Makes one call at a time, and waits for it for some seconds.

    Parameters
    ----------
    name
        Of the threads.
    """

    def __init__(self, name: str, timeout_seconds: float) -> None:
        self._name = name
        self._timeout = timeout_seconds
        self._begun: asyncio.Future[Any] | None = None

    async def __call__(self, call: Callable[[], _Result]) -> _Result:
        """The result of a call.

        Raises
        ------
        TimeoutError
            If it takes too long, or one before has not ended yet; none is begun then.
        """
        if self._begun is not None and not self._begun.done():
            raise TimeoutError("a question before has no answer yet")
        begun = self._begun = in_daemon_thread(call, self._name)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(begun)
        except TimeoutError as error:
            if begun.done():
                raise  # the call's own
            raise TimeoutError(f"no answer within {self._timeout:g} s") from error
