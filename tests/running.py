"""Coroutines at work while a test goes on."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

__all__ = ["ended", "is_running", "loop_stalls", "running"]


@contextlib.asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Tasks of these coroutines. None of them may end before the block does; they are cancelled then."""
    tasks = [asyncio.create_task(each) for each in works]
    try:
        yield tasks
        assert not any(task.done() for task in tasks), tasks
    finally:
        for task in tasks:
            await ended(task)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; an error of it is raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def is_running(pid: int) -> bool:
    """Whether a process of this machine has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.asynccontextmanager
async def loop_stalls() -> AsyncIterator[list[float]]:
    """CPU seconds of this thread between two turns of its event loop, looked at every 10 ms.

    Other threads and processes do not count, so a busy machine stalls nothing.
    """
    stalls: list[float] = []

    async def measure() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.01)
            stalls.append(time.thread_time() - before)

    async with running(measure()):
        yield stalls
