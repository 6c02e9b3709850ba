"""What another thread can do to a call: at each step of a function's bytecode, one after the other, it does its whole work."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

__all__ = ["results_at_each_step"]

T = TypeVar("T")


def results_at_each_step(
    function: Callable[..., object], call: Callable[[], T], other: Callable[[], object]
) -> Iterator[T]:
    """The results of a call, each with the other thread's work at one more step of `function`; the order is not left to chance."""
    step = 0
    while True:
        result, was_reached = _result(function, call, other, step)
        yield result
        if not was_reached:
            return
        step += 1


def _result(
    function: Callable[..., object], call: Callable[[], T], other: Callable[[], object], step: int
) -> tuple[T, bool]:
    code: Any = getattr(function, "__code__")  # noqa: B009 (a Callable need not have it)
    steps_left, was_reached = step, False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps_left, was_reached
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not was_reached:
            was_reached = steps_left == 0
            steps_left -= 1
            if was_reached:
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), was_reached
    finally:
        sys.settrace(before)
