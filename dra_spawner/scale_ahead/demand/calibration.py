"""How much safety the hit rate needs, learned from how far launches exceeded what was expected.

Each launch tells the safety factor at which it would have found a warm placeholder. The share of launches below a
factor is then its hit rate: the wanted one is a quantile (conformal prediction, with launches as weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from statistics import NormalDist
from typing import Any, Final

_STEP: Final = 0.05
#: No factor is larger: what would need more is a surprise, against which no safety helps.
_LARGEST: Final = 6.0
_BINS: Final = round(_LARGEST / _STEP) + 1
#: Launches that the normal distribution counts for in the beginning.
_PRIOR_LAUNCHES: Final = 200.0
#: Standard deviations of the number of allowed misses that are left as a margin.
_CAUTION: Final = 0.5


def spread(launches: float, burstiness: float) -> float:
    """Standard deviation of a number of launches: chance, and a part of the launches, since they come in bursts."""
    return sqrt(launches + (burstiness * launches) ** 2)


def placeholders_for(expected: float, deviation: float, factor: float) -> int:
    """Placeholders for an expected growth and a safety factor: the nearest whole number."""
    return int(expected + factor * deviation + 0.5)


class Calibration:
    """Safety factors that launches have needed; the older ones fade.

    Parameters
    ----------
    hit_rate
        Share of launches that should be hits.
    """

    def __init__(self, hit_rate: float) -> None:
        self._launches = [0.0] * _BINS
        """Launches by the factor that they needed: none in the first, then in steps."""
        self._surprises = 0.0
        """Launches that would have needed more than the largest factor."""
        prior = NormalDist().inv_cdf(hit_rate)
        self._launches[0] = _PRIOR_LAUNCHES * hit_rate
        self._launches[_bin(prior)] += _PRIOR_LAUNCHES * (1.0 - hit_rate)
        self.factor = max(prior, 0.0)
        """The factor in use, until `renew`."""

    def state(self) -> dict[str, Any]:
        """What was learned, as JSON; bins without launches are left out."""
        bins = {str(index): each for index, each in enumerate(self._launches) if each}
        return {"launches": bins, "surprises": self._surprises, "factor": self.factor}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what was learned."""
        self._launches = [float(state["launches"].get(str(index), 0.0)) for index in range(_BINS)]
        self._surprises, self.factor = float(state["surprises"]), float(state["factor"])

    def add(self, needs: Sequence[int], expected: float, deviation: float, assured: int) -> None:
        """Learn from the launches of one minute.

        Parameters
        ----------
        needs
            Placeholders that each launch has needed, in rising order.
        expected, deviation, assured
            What was said a lead time ago.
        """
        bins = self._launches
        for number, need in zip(range(len(needs), 0, -1), reversed(needs), strict=True):
            if need <= assured or need - 0.5 <= expected:
                bins[0] += number
                return
            needed = (need - 0.5 - expected) / deviation if deviation else _LARGEST + 1.0
            if needed > _LARGEST:
                self._surprises += 1.0
            else:
                bins[_bin(needed)] += 1.0

    def renew(self, fading: float, allowed: float) -> None:
        """Let the past fade by a factor, and compute `factor` anew, for a share of launches that may be misses.

        Surprises use up at most half of the misses that the hit rate allows: a hub whose launches are all surprises,
        such as a class that comes for the first time, is not to be flooded with placeholders after it.
        """
        self._launches = [each * fading for each in self._launches]
        self._surprises *= fading
        misses = (sum(self._launches) + self._surprises) * allowed
        if not misses:
            return
        likely = misses - _CAUTION * sqrt(misses)
        likely = max(likely - self._surprises, likely / 2)
        above = 0.0
        for index in range(_BINS - 1, 0, -1):
            above += self._launches[index]
            if above > likely:
                self.factor = index * _STEP
                return
        self.factor = 0.0


def _bin(factor: float) -> int:
    """Index of the smallest step that is no less than a factor."""
    return min(max(ceil(factor / _STEP - 1e-9), 0), _BINS - 1)
