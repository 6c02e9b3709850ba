"""A clock that stands still until a test sets it."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["SetClock"]

T = TypeVar("T")


class SetClock(Generic[T]):
    """Shows `now`: a moment, or monotonic seconds."""

    def __init__(self, now: T) -> None:
        self.now = now

    def __call__(self) -> T:
        return self.now
