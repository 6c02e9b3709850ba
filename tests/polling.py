"""Waiting without a notification: ask again and again until a deadline, then fail with the last state."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, overload

__all__ = ["PATIENCE_SECONDS", "eventually", "eventually_sync"]

T = TypeVar("T")

#: How long tests wait for results that need seconds on an idle machine: other programs may use its processors, too.
PATIENCE_SECONDS: Final = 240.0
_PAUSE_SECONDS: Final = 0.02
_LONGEST_SHOWN: Final = 5000


@overload
async def eventually(
    check: Callable[[], Awaitable[T | None]],
    what: str,
    within_seconds: float = PATIENCE_SECONDS,
    *,
    shows: Callable[[], object] | None = None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> T: ...


@overload
async def eventually(
    check: Callable[[], T | None],
    what: str,
    within_seconds: float = PATIENCE_SECONDS,
    *,
    shows: Callable[[], object] | None = None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> T: ...


async def eventually(
    check: Callable[[], Any],
    what: str,
    within_seconds: float = PATIENCE_SECONDS,
    *,
    shows: Callable[[], object] | None = None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> Any:
    """Ask until the answer is true.

    Parameters
    ----------
    check
        Called again and again; its answer is awaited if necessary. An exception of it ends the waiting.
    what
        The awaited state, for the message of the failure.
    within_seconds
        Time limit. A check that has begun by then is still awaited, so a machine that is busy with other things gets
        its last answer.
    shows
        The last state, for the message of the failure; the last answer, if this is not given.

    Returns
    -------
    Any
        The first true answer.

    Raises
    ------
    AssertionError
        If no answer was true in time.
    """
    end = time.monotonic() + within_seconds
    while True:
        is_last = time.monotonic() >= end
        answer = check()
        found = await answer if inspect.isawaitable(answer) else answer
        if found:
            return found
        if is_last:
            raise AssertionError(_failure(what, within_seconds, shows() if shows else found))
        await asyncio.sleep(pause_seconds)


def eventually_sync(
    check: Callable[[], T | None],
    what: str,
    within_seconds: float = PATIENCE_SECONDS,
    *,
    shows: Callable[[], object] | None = None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> T:
    """`eventually` for tests without an event loop."""
    end = time.monotonic() + within_seconds
    while True:
        is_last = time.monotonic() >= end
        found = check()
        if found:
            return found
        if is_last:
            raise AssertionError(_failure(what, within_seconds, shows() if shows else found))
        time.sleep(pause_seconds)


def _failure(what: str, within_seconds: float, last: object) -> str:
    shown = str(last)
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]} …"
    return f"not within {within_seconds:g} s: {what}; last: {shown}"
