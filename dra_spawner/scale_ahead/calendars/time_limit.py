"""Limits of processor time for code of others, which may compute for days."""

from __future__ import annotations

import contextlib
import signal
import threading
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Final

__all__ = ["TooSlow", "time_limit"]

#: The signal comes again while the code goes on, as code of others may have swallowed what the first one raised.
_AGAIN_SECONDS: Final = 0.05


class TooSlow(BaseException):
    """Raised in code that exceeds its time. No ``except Exception`` catches it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt Python code of the main thread after some seconds of processor time.

    Other threads get no signals: there, nothing is limited.

    Raises
    ------
    TooSlow
        If the code takes longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        # What a callback of a weak reference raises is lost; the signal comes again.
        if not is_over and (frame is None or frame.f_globals.get("__name__") != weakref.__name__):
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
