"""Estimates of waits: intervals that 80 of 100 waits should end in, from what was seen, or nothing.

A new node takes as long as others took. A server stops by the usual lengths of sessions, given how long it has run
already; of several servers the k-th that stops counts. A server that gets a new node may start earlier, when another
one stops. Sessions that still run, or that began before they could be seen, are used for what was seen of them (Kaplan
and Meier's estimator). Between two ends that were seen, ends are taken as evenly spread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, erf, exp, floor, inf, lgamma, log, sqrt
from typing import Final

#: Part of the waits that should end in their interval.
SHARE_INSIDE: Final = 0.8
#: With fewer examples nothing is estimated.
FEWEST_EXAMPLES: Final = 8
_TAIL: Final = (1.0 - SHARE_INSIDE) / 2
#: Narrower, as the distribution of lengths is known from examples only.
_TAIL_OF_STOPS: Final = 0.09
#: Servers that are looked at one by one.
_MAX_SERVERS: Final = 200
#: For a later stop than this, a normal distribution stands for the exact one.
_MAX_EXACT: Final = 20
_HALVINGS: Final = 18
#: No session is as long as the longest of more than this.
_LEAST_SHARE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class WaitInterval:
    """The interval in which a wait should end, in whole seconds from now."""

    low_seconds: int
    high_seconds: int

    def later(self, seconds: float) -> WaitInterval:
        """The same, counted from an earlier moment."""
        return WaitInterval(floor(self.low_seconds + seconds), ceil(self.high_seconds + seconds))


def like_others(waits: Iterable[float], elapsed: float = 0.0) -> WaitInterval | None:
    """The interval of a wait that goes like others; None with too few examples.

    Parameters
    ----------
    waits
        Whole waits that were seen, in seconds.
    elapsed
        Seconds that this wait has lasted; only longer ones are examples.
    """
    longer = _longer(waits, elapsed)
    count = len(longer)
    if count < FEWEST_EXAMPLES:
        return None
    # The next of as many equal ones is below the i-th with a probability of i / (count + 1).
    low = longer[max(floor(_TAIL * (count + 1)), 1) - 1]
    high = longer[min(ceil((1.0 - _TAIL) * (count + 1)), count) - 1]
    return WaitInterval(floor(low), ceil(high))


def _longer(waits: Iterable[float], elapsed: float) -> list[float]:
    """The rest of each longer wait, sorted."""
    return sorted(each - elapsed for each in waits if each > elapsed)


@dataclass(frozen=True, slots=True)
class SeenSession:
    """A session, as far as it was seen.

    Attributes
    ----------
    seconds
        Its length so far.
    is_over
        Whether it has ended.
    seen_from
        Its age when it was first seen: if it had ended before, it would not be known.
    """

    seconds: float
    is_over: bool = True
    seen_from: float = 0.0


class SessionLengths:
    """The distribution of the lengths of sessions, from those that were seen."""

    def __init__(self, sessions: Iterable[SeenSession]) -> None:
        known = [each for each in sessions if each.seconds > each.seen_from]
        self._ends = sorted(each.seconds for each in known if each.is_over)
        lengths = sorted(each.seconds for each in known)
        begins = sorted(each.seen_from for each in known)
        self._times, self._left = [0.0], [1.0]
        for end, count in sorted(Counter(self._ends).items()):
            at_risk = bisect_left(begins, end) - bisect_left(lengths, end)
            self._times.append(end)
            self._left.append(self._left[-1] * (1.0 - count / at_risk))
        self._seconds_for_end = sum(each.seconds - each.seen_from for each in known) / max(len(self._ends), 1)

    def examples_after(self, age: float) -> int:
        """Number of sessions that ended at a higher age."""
        return len(self._ends) - bisect_right(self._ends, age)

    def ended_within(self, age: float, seconds: float) -> float:
        """The probability that a session of this age ends within a time."""
        now = self._share_left(age)
        return 1.0 - self._share_left(age + seconds) / now if now > 0.0 else 0.0

    def rest(self, age: float, share: float) -> float:
        """Seconds after which a part of the sessions of this age has ended; infinite where that was never seen."""
        wanted = self._share_left(age) * (1.0 - share)
        after = bisect_left(self._left, -wanted, key=lambda left: -left)
        if after >= len(self._left) or age >= self._times[-1]:
            return inf
        begin, end = self._times[after - 1] if after else 0.0, self._times[after]
        more, less = self._left[after - 1] if after else 1.0, self._left[after]
        moment = end if more == less else begin + (end - begin) * (more - wanted) / (more - less)
        return max(moment - age, 0.0)

    def rest_or_more(self, age: float, share: float) -> float:
        """The same; beyond the longest that was seen, sessions end as often as all that were seen did on average."""
        found = self.rest(age, share)
        if found < inf:
            return found
        begin = max(age, self._times[-1])
        at_begin = self._left[-1] / self._share_left(age) if age < self._times[-1] else 1.0
        return begin - age - log(max((1.0 - share) / at_begin, _LEAST_SHARE)) * self._seconds_for_end

    @property
    def longest(self) -> float:
        """The longest session that has ended."""
        return self._times[-1]

    def _share_left(self, age: float) -> float:
        """The share of sessions that are longer."""
        if age >= self._times[-1]:
            return self._left[-1]
        after = bisect_right(self._times, age)
        begin, end = self._times[after - 1], self._times[after]
        more, less = self._left[after - 1], self._left[after]
        return more - (more - less) * (age - begin) / (end - begin)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs, and the lengths of sessions like it.

    Attributes
    ----------
    age
        Seconds since it has had its node.
    """

    age: float
    lengths: SessionLengths


def kth_stop(servers: Sequence[RunningServer], k: int) -> WaitInterval | None:
    """The interval in which the k-th of some servers stops; None if too little is known.

    There must be enough examples for at least k of the servers, and for half of them. Servers that run longer than all
    that were seen do not count: when they stop is not known.
    """
    found = _chance_of_stop(servers, k)
    if found is None:
        return None
    stopped, longest = found
    if stopped(longest) < 1.0 - _TAIL_OF_STOPS:
        return None
    low, high = (_first_time(stopped, share, longest) for share in (_TAIL_OF_STOPS, 1.0 - _TAIL_OF_STOPS))
    return WaitInterval(floor(low), ceil(high))


def first_of_both(
    waits: Iterable[float], elapsed: float, servers: Sequence[RunningServer], k: int
) -> WaitInterval | None:
    """The interval of a wait that goes like others, or ends earlier, when the k-th of some servers stops.

    It is the interval of `like_others` where too little is known of the servers.
    """
    waits = tuple(waits)
    alone, found = like_others(waits, elapsed), _chance_of_stop(servers, k)
    if alone is None or found is None:
        return alone
    longer, (stopped, longest) = _longer(waits, elapsed), found

    def ended(seconds: float) -> float:
        is_longer = 1.0 - bisect_right(longer, seconds) / (len(longer) + 1)
        return 1.0 - is_longer * (1.0 - stopped(min(seconds, longest)))

    low, high = (_first_time(ended, share, longer[-1]) for share in (_TAIL, 1.0 - _TAIL))
    return WaitInterval(min(floor(low), alone.low_seconds), min(ceil(high), alone.high_seconds))


def _chance_of_stop(servers: Sequence[RunningServer], k: int) -> tuple[Callable[[float], float], float] | None:
    """The probability that the k-th server has stopped, by the time in seconds, and the time up to which it is known.

    None if too little is known (`kth_stop`).
    """
    well_known = sum(each.lengths.examples_after(each.age) >= FEWEST_EXAMPLES for each in servers)
    if well_known < k or 2 * well_known < len(servers):
        return None
    known = [each for each in servers if each.lengths.examples_after(each.age)]
    # Of very many servers some stand for all.
    weight = max(len(known) / _MAX_SERVERS, 1.0)
    if weight > 1.0:
        by_age = sorted(known, key=lambda each: each.age)
        known = [by_age[int(number * weight)] for number in range(_MAX_SERVERS)]

    def stopped(seconds: float) -> float:
        return _at_least(k, [each.lengths.ended_within(each.age, seconds) for each in known], weight)

    return stopped, max(each.lengths.longest - each.age for each in known)


def _at_least(k: int, chances: Sequence[float], weight: float) -> float:
    """The probability that at least k of independent events happen, of which each chance stands for a number."""
    mean = weight * sum(chances)
    if k > _MAX_EXACT:
        spread = sqrt(weight * sum(each * (1.0 - each) for each in chances))
        if spread == 0.0:
            return 1.0 if mean >= k else 0.0
        return 0.5 * (1.0 - erf((k - 0.5 - mean) / (spread * sqrt(2.0))))
    if weight > 1.0:  # rare events of many
        return 1.0 - sum(exp(number * log(mean) - mean - lgamma(number + 1)) for number in range(k)) if mean else 0.0
    fewer = [1.0] + [0.0] * (k - 1)  # of exactly 0, 1, … k - 1 events
    for chance in chances:
        for number in range(k - 1, 0, -1):
            fewer[number] += chance * (fewer[number - 1] - fewer[number])
        fewer[0] *= 1.0 - chance
    return 1.0 - sum(fewer)


def _first_time(reached: Callable[[float], float], share: float, longest: float) -> float:
    """The time at which a growing function reaches a share."""
    low, high = 0.0, longest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) >= share else (middle, high)
    return high
