"""The share of misses to calculate with, so that the promised share of launches finds a warm placeholder.

What is calculated from launches alone is too careful where servers share nodes: slots of servers that have ended, and
free rests of nodes, serve launches, too. Hits and misses as they are counted have all of it in them.
"""

from __future__ import annotations

from math import exp
from typing import Any, Final

#: The share to calculate with is at most so many times the wanted one.
_LARGEST: Final = 10.0
#: Change a day, as a logarithm, where no launch is a miss.
_STEP: Final = 0.1
#: How many days without a miss one bad day undoes.
_WORST: Final = 10.0
#: Part of the allowed misses that is aimed at.
_AIM: Final = 0.7
#: Launches a day of which half of a change is believed.
_FEW: Final = 100.0


class AllowedMisses:
    """A share that grows while there are fewer misses than wanted, and shrinks when there are more.

    Parameters
    ----------
    hit_rate
        Share of launches that should be hits.
    """

    def __init__(self, hit_rate: float) -> None:
        self._wanted = 1.0 - hit_rate
        self._times = 1.0
        self._hits = self._misses = 0

    @property
    def share(self) -> float:
        """Share of launches that may be misses, if launches alone are looked at."""
        return min(self._wanted * self._times, 0.5)

    def add(self, hits: int, misses: int) -> None:
        """Count launches of which it is known how they were served."""
        self._hits += hits
        self._misses += misses

    def renew(self) -> None:
        """Correct the share by the launches since the last time."""
        launches = self._hits + self._misses
        if launches:
            error = 1.0 - self._misses / launches / (self._wanted * _AIM)
            believed = launches / (launches + _FEW)
            self._times *= exp(_STEP * max(error, -_WORST) * believed)
            self._times = min(max(self._times, 1.0), _LARGEST)
        self._hits = self._misses = 0

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return {"times": self._times, "hits": self._hits, "misses": self._misses}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what was learned."""
        self._times, self._hits, self._misses = float(state["times"]), int(state["hits"]), int(state["misses"])
