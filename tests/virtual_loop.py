"""An event loop in virtual time: where nothing is left to do at a moment, its clock jumps to the next one."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

__all__ = ["VirtualLoop", "pass_time", "run_in_virtual_time"]

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing is left that could happen"
            self.loop.seconds += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module; what other threads would do is done at once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.seconds

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        found = cast("asyncio.Future[T]", self.create_future())
        try:
            found.set_result(func(*args))
        except Exception as error:
            found.set_exception(error)
        return found


def run_in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine; its waiting takes no time. It must not use the network."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def pass_time(seconds: float) -> None:
    """Let virtual time pass, and all happen that is due by then."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    await asyncio.sleep(seconds)
