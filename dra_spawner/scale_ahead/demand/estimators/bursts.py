"""A burst: many users at once whom nothing announced, such as an exam."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source

#: Minutes over which launches are counted.
_MINUTES: Final = 5
#: Standard deviations, and launches, that chance does not exceed.
_CHANCE: Final = 6.0
_FEW: Final = 10
#: Minutes after which a burst is no burst: launches come at a new rate.
_LONGEST: Final = 15


class BurstDetector:
    """Launches that come in a burst: they say nothing of the launches after it."""

    def __init__(self) -> None:
        self.launches = 0
        """Launches of the last minutes, if they are a burst."""
        self._since: int | None = None
        """Minute at which the present burst has begun."""
        self._from = 0
        """The first minute that counts."""

    def observe(self, counts: MinuteCounts, minute: int, rate: float) -> bool:
        """Look at a minute that is over; returns whether it is a part of a burst.

        Parameters
        ----------
        counts
            Include this minute.
        rate
            Usual launches a minute.
        """
        came = counts.arrivals(max(minute + 1 - _MINUTES, self._from), minute + 1)
        usual = rate * _MINUTES
        if came <= usual + _CHANCE * sqrt(usual) + _FEW:
            self._since = None
        elif self._since is None:
            self._since = minute
        is_burst = self._since is not None and minute - self._since < _LONGEST
        self.launches = came if is_burst else 0
        return is_burst

    def ignore(self, minute: int) -> None:
        """Leave out a minute whose launches were announced, and all before it."""
        self._from, self._since, self.launches = minute + 1, None, 0

    def state(self) -> list[int | None]:
        """What was seen, as JSON."""
        return [self.launches, self._since, self._from]

    def restore(self, state: list[Any]) -> None:
        """Take over what was seen."""
        launches, since, first, *_ = state
        self.launches, self._since, self._from = int(launches), int(since) if since is not None else None, int(first)

    def copy(self) -> BurstDetector:
        """The same burst, to go on from apart."""
        found = BurstDetector()
        found.restore(self.state())
        return found


def burst_estimate(launches: int) -> Estimate:
    """As many users again as have come in the last minutes of a burst. It is not held when the burst is over."""
    return Estimate(Source.BURST, assured=launches, note=f"{launches} launches in {_MINUTES} min" if launches else "")
