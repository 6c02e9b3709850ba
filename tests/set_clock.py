"""Clocks that a test sets."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

__all__ = ["SetClock", "SkippingClock"]

T = TypeVar("T")


class SetClock(Generic[T]):
    """A clock that stands still until a test sets it: it shows `now`, a moment or monotonic seconds."""

    def __init__(self, now: T) -> None:
        self.now = now

    def __call__(self) -> T:
        return self.now


class SkippingClock:
    """Monotonic seconds, of which a test skips some."""

    skipped_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped_seconds
