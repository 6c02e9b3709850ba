"""Limits of searches for devices during decisions: for each search, each shape of claims, and each round.

Users write claims, so users decide how long a search takes, and no other work is done meanwhile. So a long search is
stopped, its claims are set aside for a while, and pods and namespaces with a high cost come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dra_spawner.dra.budget import SearchBudget, SearchStopped
from dra_spawner.simulator.model.pods import Pod

#: Steps of one search on one node, 5 to 10 µs each. Most searches take less than ten; a proof that one device of 14 is
#: missing takes 8,192.
MAX_OF_A_SEARCH: Final = 10_000
#: Steps of all searches in one round, without the first steps of each search.
MAX_OF_A_PART: Final = 12_000
_SHORT: Final = 10
#: Steps of long searches for one shape of claims within a time.
MAX_OF_LONG_ONES: Final = 40_000
_LONG: Final = 500
_WHILE: Final = timedelta(minutes=1)
#: Seconds of the clock for one search, for steps that are slow.
MAX_SECONDS: Final = 1.0
#: Shortest and longest time for which a shape of claims is set aside.
FIRST_REST: Final = timedelta(seconds=30)
LONGEST_REST: Final = timedelta(minutes=30)
_MAX_KEPT: Final = 5_000
#: Half-life of a recorded cost, and the steps up to which a cost does not matter.
_HALVED_AFTER: Final = timedelta(seconds=10)
_FREE: Final = 1_000
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class SearchPostponed(SearchStopped):
    """Raised when other searches have used up the round's steps."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps, "other searches used up the time of this round")


@dataclass(frozen=True, slots=True)
class _Rest:
    """Claims that are set aside: until when, how often before, and after how many steps."""

    until: datetime
    times: int
    steps: int


class SearchLedger:
    """A :class:`~dra_spawner.simulator.devices.search_limits.SearchLimits` that lasts from round to round.

    Parameters
    ----------
    clock
        Seconds of the thread's processor time, so that nothing is set aside because the process is starved; without it
        only steps are limited.

    Attributes
    ----------
    spent
        Steps of all searches so far, without the first steps of each.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._now = _LONG_AGO
        self._left = MAX_OF_A_PART
        self.spent = 0
        self._resting: dict[int, _Rest] = {}
        self._long_ones: dict[int, tuple[datetime, int]] = {}
        self._debts: dict[str, float] = {}
        self._halved = _LONG_AGO

    def copy(self) -> SearchLedger:
        """A ledger of its own with the same records."""
        found = copy(self)
        found._resting, found._long_ones = dict(self._resting), dict(self._long_ones)
        found._debts = dict(self._debts)
        return found

    def begin(self, now: datetime) -> None:
        """Begin a round."""
        self._now = now
        self.begin_part()
        if not self._halved <= now < self._halved + _HALVED_AFTER:
            self._halved = now
            self._debts = {each: debt / 2 for each, debt in self._debts.items() if debt >= _FREE / 10}
        if len(self._resting) > _MAX_KEPT:
            self._resting = {shape: each for shape, each in self._resting.items() if now < each.until}
        if len(self._long_ones) > _MAX_KEPT:
            self._long_ones.clear()

    def begin_part(self) -> None:
        """Begin a part of a round with a budget of its own."""
        self._left = MAX_OF_A_PART

    def check(self, shape: int) -> None:
        """SearchStopped if claims of this shape are set aside. See `SearchLimits`."""
        rest = self._resting.get(shape)
        if rest is not None and self._now < rest.until <= self._now + LONGEST_REST:
            raise self._stopped(rest)

    @contextmanager
    def search(self, shape: int) -> Iterator[SearchBudget]:
        """The budget of one search; SearchStopped where there is none. See `SearchLimits`."""
        self.check(shape)
        # A short search is always possible, so that simple claims never wait for others.
        limit = max(_SHORT, min(MAX_OF_A_SEARCH, self._left))
        budget = SearchBudget(limit, self._timer())
        try:
            yield budget
        except SearchStopped as stopped:
            if budget.spent > limit and limit < MAX_OF_A_SEARCH:
                raise SearchPostponed(budget.spent) from stopped
            raise self._set_aside(shape, budget.spent) from stopped
        finally:
            charged = max(0, budget.spent - _SHORT)
            self._left -= charged
            self.spent += charged
        if budget.spent > _LONG:
            self._count_long(shape, budget.spent)

    def _timer(self) -> Callable[[], bool] | None:
        clock = self._clock
        if clock is None:
            return None
        end = clock() + MAX_SECONDS
        return lambda: clock() > end

    def _count_long(self, shape: int, steps: int) -> None:
        since, before = self._long_ones.get(shape, (self._now, 0))
        if not since <= self._now < since + _WHILE:
            since, before = self._now, 0
        self._long_ones[shape] = since, before + steps
        if before + steps > MAX_OF_LONG_ONES:
            self._set_aside(shape, before + steps)

    def _set_aside(self, shape: int, steps: int) -> SearchStopped:
        """Set these claims aside for a while, twice as long each time."""
        known = self._resting.get(shape)
        times = known.times + 1 if known is not None else 1
        rest = _Rest(self._now + min(FIRST_REST * 2 ** min(times - 1, 10), LONGEST_REST), times, steps)
        self._resting[shape] = rest
        self._long_ones.pop(shape, None)
        return self._stopped(rest)

    def _stopped(self, rest: _Rest) -> SearchStopped:
        seconds = round((rest.until - self._now).total_seconds())
        return SearchStopped(rest.steps, f"it is tried again in {seconds} s")

    @contextmanager
    def charged_to(self, pod: Pod) -> Iterator[None]:
        """A context in which the cost of searches is charged to a pod and its namespace."""
        before = self.spent
        try:
            yield
        finally:
            if steps := self.spent - before:
                for each in (pod.namespace, pod.uid):
                    self._debts[each] = self._debts.get(each, 0.0) + steps

    def in_turn(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        """The pods in their order, except that those with a high cost, or of such namespaces, come last."""
        if not self._debts:
            return pods
        return sorted(pods, key=lambda pod: (self._level(pod.namespace), self._level(pod.uid)))

    def _level(self, who: str) -> int:
        return (int(self._debts.get(who, 0.0)) // _FREE).bit_length()
