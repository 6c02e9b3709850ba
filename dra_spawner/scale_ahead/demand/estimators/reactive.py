"""The recent rate of launches, carried on over the lead time."""

from __future__ import annotations

from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source


class DecayingMean:
    """Mean of a figure by the minute, in which older minutes count less. Right from the first minute on.

    Attributes
    ----------
    total, weight
        Sum of the figures and number of minutes, both decayed.
    """

    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        self.total = 0.0
        self.weight = 0.0

    def add(self, figure: float, decay: float) -> None:
        """Add the figure of the next minute; `decay` is the factor by which older ones shrink."""
        self.total = self.total * decay + figure
        self.weight = self.weight * decay + 1.0

    def skip(self, minutes: int, decay: float) -> None:
        """Let minutes pass in which nothing happened."""
        shrunk = decay**minutes
        self.total *= shrunk
        self.weight = self.weight * shrunk + (1.0 - shrunk) / (1.0 - decay)

    def state(self) -> list[float]:
        """Total and weight, as JSON."""
        return [self.total, self.weight]

    def restore(self, state: list[float]) -> None:
        """Take over a total and its weight."""
        self.total, self.weight = map(float, state[:2])

    def copy(self) -> DecayingMean:
        """The same mean, to go on from apart."""
        found = DecayingMean()
        found.total, found.weight = self.total, self.weight
        return found

    @property
    def mean(self) -> float:
        """The mean; 0 before the first minute."""
        return self.total / self.weight if self.weight else 0.0


def reactive_estimate(arrivals: DecayingMean, departures: DecayingMean, lead: int) -> Estimate:
    """Launches go on at the recent rate; servers that end free capacity, so fewer nodes are needed.

    Parameters
    ----------
    lead
        Minutes.
    """
    launches = arrivals.mean * lead
    return Estimate(Source.REACTIVE, max(launches - departures.mean * lead, 0.0), launches)
