"""Whether the API server fails: several requests one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from dra_spawner.kube.errors import KubernetesError

__all__ = ["ApiFailures"]

#: Failures in a row after which the API counts as failing.
_MOST: Final = 3


class ApiFailures:
    """Counts failures that say something of the API server, not of what was asked.

    Parameters
    ----------
    pause
        Seconds after the last failure, after which it is tried again.
    clock
        Seconds that only go forward.
    """

    def __init__(self, pause: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._count = 0
        self._at = 0.0
        self._last = ""

    def note(self, error: KubernetesError) -> None:
        """A request was not carried out."""
        if not error.retryable:
            self._count = 0  # it has answered
            return
        self._count += 1
        self._at = self._clock()
        self._last = str(error)

    def forget(self) -> None:
        """A request was carried out."""
        self._count = 0

    @property
    def problem(self) -> str:
        """Why nothing is asked of it for now; empty if it may be."""
        if self._count < _MOST or self._clock() - self._at >= self._pause:
            return ""
        return f"the API server fails: {self._last}"
