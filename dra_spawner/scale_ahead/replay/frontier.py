"""Results of fixed numbers of placeholders, in the range of other policies' results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import log10
from typing import Final

from dra_spawner.scale_ahead.demand.policies import Buffer
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.results import ReplayResult

_POINTS: Final = 12
#: The curve reaches at least this hit rate, if a fixed number does.
_LEAST_TOP: Final = 0.995
#: Limit of the hit rate; higher ones differ by a few launches only.
_BEST: Final = 0.9999


def fixed_frontier(
    scenario: Scenario,
    hit_rates: Iterable[float],
    *,
    known: Mapping[int, ReplayResult] | None = None,
    points: int = _POINTS,
    progress: Callable[[int, float], None] = lambda number, done: None,
) -> dict[int, ReplayResult]:
    """Results of fixed numbers, by number: from 0 to a number with a better hit rate than the other policies.

    Parameters
    ----------
    scenario
        The scenario of the other policies; fixed numbers do not use its calendar.
    hit_rates
        Hit rates of the other policies.
    known
        Results of fixed numbers that were replayed before.
    points
        Number of fixed numbers to replay; a few more if the range is wide.
    progress
        Called with a number, and with the share of its replay that is done.
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
    most = _largest_useful(scenario)
    while hit_rate(high) < goal and high < most and not _is_exhausted(tried, high):
        low, high = high, min(2 * high, most)
    # The curve ends near the goal, not at twice as many placeholders.
    while high - low > max(high // 8, 1) and hit_rate(high) >= goal:
        middle = (low + high) // 2
        low, high = (low, middle) if hit_rate(middle) >= goal else (middle, high)
    while len(tried) < points and (middle := _widest_gap({each: tried[each] for each in tried if each <= high})):
        hit_rate(middle)
    return {number: tried[number] for number in sorted(tried) if number <= high}


def idle_at_hit_rate(frontier: Mapping[int, ReplayResult], hit_rate: float) -> float | None:
    """Idle placeholder-hours a day of fixed numbers with this hit rate, interpolated between two neighbours.

    Returns
    -------
    float or None
        None if no number of the frontier reaches this hit rate.
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


def _largest_useful(scenario: Scenario) -> int:
    """Number from which further placeholders change nothing: all launches, or the capacity of all nodes."""
    number = scenario.trace.total
    if scenario.kind.max_nodes is not None:
        number = min(number, scenario.kind.max_nodes * scenario.kind.slots)
    return max(number, 1)


def _is_exhausted(tried: dict[int, ReplayResult], number: int) -> bool:
    """Whether twice as many placeholders brought no more hits."""
    half = tried.get(number // 2)
    # A few placeholders may be too few for any hit.
    return half is not None and half.hits > 0 and tried[number].hits <= half.hits


def _widest_gap(tried: dict[int, ReplayResult]) -> int:
    """The number in the middle of the widest gap of the curve; 0 without a gap."""
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
