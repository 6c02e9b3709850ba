"""The best fixed number of placeholders with the same hit rate, for comparisons."""

from __future__ import annotations

from typing import Final

from dra_spawner.scale_ahead.demand.policies import Buffer
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.results import ReplayResult

_MAX: Final = 1 << 20


def smallest_buffer(scenario: Scenario, hit_rate: float, *, guess: int = 1) -> tuple[int, ReplayResult]:
    """The smallest fixed number that reaches a hit rate in the judged time, and its result.

    The number is fitted to the judged time itself, which favours it.

    Parameters
    ----------
    guess
        First number of the search; a number near the answer makes the search shorter.

    Raises
    ------
    ValueError
        If no number reaches the hit rate.
    """
    tried: dict[int, ReplayResult] = {}

    def reaches(number: int) -> bool:
        if number not in tried:
            tried[number] = replay(scenario, Buffer(number), name=f"fixed:{number}")
        return tried[number].hit_rate >= hit_rate

    low, high = 0, max(guess, 1)
    while not reaches(high):
        low, high = high + 1, 2 * high
        if high > _MAX:
            raise ValueError(f"no fixed number of placeholders reaches a hit rate of {hit_rate}")
    while low < high:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle + 1
    reaches(high)
    return high, tried[high]
