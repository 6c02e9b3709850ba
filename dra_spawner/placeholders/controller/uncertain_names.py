"""Names of placeholders that were to be made and of which no answer told whether they are there.

The next one is made by the same name: it is there once then, whatever became of the first request. So an answer that is
lost never costs a placeholder more than are wanted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["UncertainNames"]

#: By then the watch has shown what is there, or nothing is decided at all.
_LASTING_SECONDS: Final = 120.0


class UncertainNames:
    """See the module.

    Parameters
    ----------
    clock
        Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: dict[str, dict[str, float]] = {}

    def put(self, shape: str, name: str) -> None:
        """Remember a name of a shape's placeholder, and forget those of shapes that nobody asked for since."""
        now = self._clock()
        self._names = {each: left for each, names in self._names.items() if (left := _fresh(names, now))}
        self._names.setdefault(shape, {})[name] = now + _LASTING_SECONDS

    def take(self, shape: str) -> str | None:
        """One that was not taken yet, the oldest first; None if there is none."""
        fresh = _fresh(self._names.pop(shape, {}), self._clock())
        found = next(iter(fresh), None)
        if found is not None and len(fresh) > 1:
            del fresh[found]
            self._names[shape] = fresh
        return found


def _fresh(names: Mapping[str, float], now: float) -> dict[str, float]:
    return {name: until for name, until in names.items() if now < until}
