"""Calls that block: one at a time, each with a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from dra_spawner.service.blocking_calls import BlockingCalls, in_daemon_thread
from tests.polling import eventually


async def test_results_and_errors_come_back() -> None:
    calls = BlockingCalls("test", 30)
    assert await calls(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        await calls(lambda: 1 // 0)
    assert await calls(lambda: 4) == 4


async def test_a_hanging_call_is_given_up_and_no_other_call_begins_beside_it() -> None:
    calls, release, begun = BlockingCalls("test", 0.05), threading.Event(), list[int]()

    def hang(number: int) -> int:
        begun.append(number)
        assert release.wait(60)
        return number

    with pytest.raises(TimeoutError, match=r"no answer within 0.05 s"):
        await calls(lambda: hang(1))
    with pytest.raises(TimeoutError, match="before has no answer yet"):
        await calls(lambda: hang(2))
    await eventually(lambda: bool(begun), "the first call begins")
    assert begun == [1]
    release.set()
    await eventually(lambda: not [each for each in threading.enumerate() if each.name == "test"], "its end")
    assert await BlockingCalls("test", 30)(lambda: hang(3)) == 3

    async def is_answered() -> bool:
        with contextlib.suppress(TimeoutError):
            return await calls(lambda: 5) == 5
        return False

    await eventually(is_answered, "it is asked again")


async def test_a_calls_own_timeout_is_its_own() -> None:
    def fail() -> None:
        raise TimeoutError("of the driver")

    with pytest.raises(TimeoutError, match="of the driver"):
        await BlockingCalls("test", 30)(fail)


async def test_a_caller_that_goes_leaves_no_error_behind() -> None:
    release = threading.Event()

    def fail() -> None:
        release.wait(60)
        raise OSError("gone")

    answer = in_daemon_thread(fail, "test")
    answer.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert all(each.daemon for each in threading.enumerate() if each.name == "test")
