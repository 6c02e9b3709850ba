"""Up at once, down only when nothing of the last minutes was higher."""

from __future__ import annotations

from collections import deque


class RunningMaximum:
    """The largest figure of the last minutes."""

    __slots__ = ("_falling",)

    def __init__(self) -> None:
        self._falling: deque[tuple[int, float]] = deque()
        """Minutes and figures, each smaller than the one before."""

    def add(self, minute: int, figure: float) -> None:
        """Note the figure of a minute; of several in one minute the largest counts."""
        falling = self._falling
        while falling and falling[-1][1] <= figure:
            falling.pop()
        falling.append((minute, figure))

    def state(self) -> list[list[float]]:
        """All that is noted, as JSON."""
        return [[minute, figure] for minute, figure in self._falling]

    def restore(self, state: list[list[float]]) -> None:
        """Take over what was noted."""
        self._falling = deque((int(minute), float(figure)) for minute, figure, *_ in state)

    def copy(self) -> RunningMaximum:
        """The same figures, to go on from apart."""
        found = RunningMaximum()
        found._falling = self._falling.copy()
        return found

    def held(self, now: int, minutes: int) -> float:
        """The largest figure since so many minutes before now; 0 without any. Older figures are forgotten."""
        falling = self._falling
        while falling and falling[0][0] <= now - minutes:
            falling.popleft()
        return falling[0][1] if falling else 0.0
