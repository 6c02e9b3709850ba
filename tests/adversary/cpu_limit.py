"""An end for evaluations that take for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Far above the needed time on any machine: what has no limit takes minutes to years.
SECONDS: Final = 60.0


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Fail when this takes a minute of CPU time."""

    def stop(*_: object) -> None:
        raise AssertionError(f"it took more than {SECONDS} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
