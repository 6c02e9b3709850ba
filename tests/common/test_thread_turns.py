"""A turn lasts until its thread has ended, whoever was cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dra_spawner.common.thread_turns import ThreadTurns


@pytest.mark.parametrize("fails", [False, True])
async def test_the_next_call_waits_for_the_thread_of_a_cancelled_caller(fails: bool) -> None:
    turns, goes_on, inside = ThreadTurns(), threading.Event(), threading.Event()
    order = list[str]()

    def first() -> None:
        inside.set()
        goes_on.wait()
        order.append("first")
        if fails:
            raise RuntimeError

    caller = asyncio.ensure_future(turns.run(first))
    await asyncio.to_thread(inside.wait)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller  # at once: the thread still waits
    second = asyncio.ensure_future(turns.run(order.append, "second"))
    waiting = asyncio.ensure_future(turns.run(order.append, "never"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((second,), timeout=0.05)
    assert order == []
    goes_on.set()
    await second
    assert order == ["first", "second"]


async def test_results_and_errors_are_given() -> None:
    turns = ThreadTurns()
    assert await turns.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await turns.run(divmod, 7, 0)
    async with turns.turn():
        pass  # a turn without a call
    assert await turns.run(int, "5") == 5
