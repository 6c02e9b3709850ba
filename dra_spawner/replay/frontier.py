"""What fixed numbers of placeholders would have done, over the range that is worth comparing with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import log10
from typing import Final

from dra_spawner.placeholders.planner.demand.policies import Buffer
from dra_spawner.replay.replay import Scenario, replay
from dra_spawner.replay.results import ReplayResult

__all__ = ["fixed_frontier", "idle_at_hit_rate"]

_POINTS: Final = 12
#: The curve reaches at least so high, if fixed numbers do.
_LEAST_TOP: Final = 0.995
#: Hit rates above differ by few launches.
_BEST: Final = 0.9999


def fixed_frontier(
    scenario: Scenario,
    hit_rates: Iterable[float],
    *,
    known: Mapping[int, ReplayResult] | None = None,
    points: int = _POINTS,
    progress: Callable[[int, float], None] = lambda number, done: None,
) -> dict[int, ReplayResult]:
    """Results of fixed numbers, by number: from none to more than what the best of other policies needs.

    Parameters
    ----------
    scenario
        The same as that of the other policies; fixed numbers see no calendar.
    hit_rates
        Of the other policies.
    known
        Results of fixed numbers that were replayed before.
    points
        How many numbers are tried; a few more where the range is wide.
    progress
        Told a number that is being tried, and how much of its replay is done.
    """
    scenario = replace(scenario, occurrences=(), has_timeline=False)
    minutes = max(len(scenario.trace.launches), 1)
    tried: dict[int, ReplayResult] = dict(known or {})

    def hit_rate(number: int) -> float:
        if number not in tried:
            tried[number] = replay(
                scenario,
                Buffer(number),
                name=f"fixed:{number}",
                progress=lambda done: progress(number, done / minutes),
            )
        return tried[number].hit_rate

    best = max(hit_rates, default=0.0)
    # Half of the misses of the best policy, so that its point is well within the curve.
    goal = min(max(1.0 - (1.0 - best) / 2, _LEAST_TOP), _BEST)
    hit_rate(0)
    low, high = 0, 1
    most = _useful(scenario)
    while hit_rate(high) < goal and high < most and not _is_exhausted(tried, high):
        low, high = high, min(2 * high, most)
    # The curve ends about there, and not at twice as many placeholders.
    while high - low > max(high // 8, 1) and hit_rate(high) >= goal:
        middle = (low + high) // 2
        low, high = (low, middle) if hit_rate(middle) >= goal else (middle, high)
    while len(tried) < points and (middle := _widest_gap({each: tried[each] for each in tried if each <= high})):
        hit_rate(middle)
    return {number: tried[number] for number in sorted(tried) if number <= high}


def idle_at_hit_rate(frontier: Mapping[int, ReplayResult], hit_rate: float) -> float | None:
    """Idle placeholder-hours a day of a mixture of two neighbouring fixed numbers with this hit rate.

    Returns
    -------
    float or None
        None if no number of the frontier has this hit rate.
    """
    before: ReplayResult | None = None
    for number in sorted(frontier):
        result = frontier[number]
        if result.hit_rate >= hit_rate:
            if before is None or result.hit_rate <= before.hit_rate:
                return result.idle_hours_a_day
            share = (hit_rate - before.hit_rate) / (result.hit_rate - before.hit_rate)
            return before.idle_hours_a_day + share * (result.idle_hours_a_day - before.idle_hours_a_day)
        before = result
    return None


def _useful(scenario: Scenario) -> int:
    """No more placeholders than this are of any use: one for each launch, or as many as the nodes have room for."""
    room = scenario.trace.total
    if scenario.kind.max_nodes is not None:
        room = min(room, scenario.kind.max_nodes * scenario.kind.slots)
    return max(room, 1)


def _is_exhausted(tried: dict[int, ReplayResult], number: int) -> bool:
    """Whether twice as many placeholders brought nothing."""
    half = tried.get(number // 2)
    # A few placeholders may be too few for any hit.
    return half is not None and half.hits > 0 and tried[number].hits <= half.hits


def _widest_gap(tried: dict[int, ReplayResult]) -> int:
    """The number in the middle of the widest gap of the curve; 0 if none is left."""
    numbers = sorted(tried)
    idle = tried[numbers[-1]].idle_hours_a_day or 1.0
    top = _nines(tried[numbers[-1]]) or 1.0
    widest, middle = 0.0, 0
    for low, high in pairwise(numbers):
        across = (tried[high].idle_hours_a_day - tried[low].idle_hours_a_day) / idle
        up = (_nines(tried[high]) - _nines(tried[low])) / top
        if high - low > 1 and across + up > widest:
            widest, middle = across + up, (low + high) // 2
    return middle


def _nines(result: ReplayResult) -> float:
    return -log10(1.0 - min(result.hit_rate, _BEST))
