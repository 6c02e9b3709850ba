"""The same weekday and minute in past weeks: what is usual then, and classes that recur."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, sqrt
from typing import Final

from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from dra_spawner.scale_ahead.demand.estimators.estimates import Estimate, Source

#: Minutes before and after, over which launches are usual.
_SOME_HOURS: Final = 120
#: Standard deviations that chance does not exceed.
_CHANCE: Final = 4.0
#: Minutes by which a limit on node starts may bring a preparation forward.
_EARLIEST: Final = 60
#: Past weeks that must have seen a class: two may be a coincidence.
_EVIDENCE: Final = 3


def seasonal_estimate(
    counts: MinuteCounts, now: int, minutes_back: Iterable[int], lead: int, around: int, level: float
) -> Estimate:
    """The mean of past weeks over the coming lead time and some minutes around it.

    Parameters
    ----------
    now
        The minute that begins.
    minutes_back
        Minutes back to the same time of each past week.
    lead, around
        Minutes.
    level
        How present demand compares with that of past weeks; 1 if it is alike. Vacations and holidays show in it.
    """
    weeks = launches = growth = 0
    for back in minutes_back:
        begin = now - back - around
        if counts.knows(begin):
            end = now - back + lead + around
            weeks += 1
            launches += counts.arrivals(begin, end)
            growth += counts.growth(begin, end)
    if not weeks:
        return Estimate(Source.SEASONAL)
    share = level * lead / (weeks * (lead + 2 * around))
    return Estimate(Source.SEASONAL, max(growth * share, 0.0), launches * share)


def recurring_estimate(
    counts: MinuteCounts,
    now: int,
    minutes_back: Iterable[int],
    lead: int,
    around: int,
    margin: float,
    starts_per_minute: float,
) -> Estimate:
    """The steepest growth about this time that at least three of the past weeks have seen.

    Two crowds are a coincidence, and so is what chance does to the usual launches of some hours. The third largest of
    the weeks is taken, so of four weeks one without the class, or one with an unusual crowd, changes nothing.

    Parameters
    ----------
    margin
        Part that is added, since a class may grow.
    starts_per_minute
        Placeholders that new nodes bring in a minute at most (infinite if unlimited): a steep growth is prepared
        earlier by as many minutes as that takes.
    """
    starts = [now - back for back in minutes_back if counts.knows(now - back - around)]
    if len(starts) < _EVIDENCE:
        return Estimate(Source.RECURRING)
    earlier = 0
    if starts_per_minute != float("inf"):
        largest = _often_reached(counts, starts, lead, around, around + _EARLIEST)
        earlier = min(ceil(largest / starts_per_minute), _EARLIEST)
    largest = _often_reached(counts, starts, lead, around, around + earlier)
    launches = sum(counts.arrivals(start - _SOME_HOURS, start + _SOME_HOURS) for start in starts)
    usual = launches * lead / (2 * _SOME_HOURS * len(starts))
    if largest <= usual + _CHANCE * sqrt(usual):
        return Estimate(Source.RECURRING)
    return Estimate(Source.RECURRING, assured=round(largest * (1.0 + margin)))


def _often_reached(counts: MinuteCounts, starts: Sequence[int], lead: int, before: int, after: int) -> int:
    return sorted(counts.peak_growth(start - before, start + after, lead) for start in starts)[-_EVIDENCE]
