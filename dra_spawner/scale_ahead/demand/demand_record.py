"""What is remembered of one profile group between forecasts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import inf
from typing import Any, Final

from dra_spawner.scale_ahead.demand.allowed_misses import AllowedMisses
from dra_spawner.scale_ahead.demand.calibration import Calibration, placeholders_for
from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from dra_spawner.scale_ahead.demand.estimators.bursts import BurstDetector
from dra_spawner.scale_ahead.demand.estimators.calendar_entries import OpenWindows
from dra_spawner.scale_ahead.demand.estimators.reactive import DecayingMean
from dra_spawner.scale_ahead.demand.hold import RunningMaximum
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, MINUTES_A_WEEK, whole_minutes
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.demand.steady_number import SteadyNumber
from dra_spawner.scale_ahead.demand.wall_clock import WallClock

#: Half-life of the comparison with past weeks.
_LEVEL_DECAY: Final = 0.5 ** (1 / MINUTES_A_DAY)
#: Launches that both sides of the comparison begin with, so that few launches say little.
_LEVEL_PRIOR: Final = 10.0
#: Bounds of the half-life of the recent rate, in lead times.
_SHORTEST_MEMORY: Final = 0.5
_LONGEST_MEMORY: Final = 6.0
#: By how much launches may exceed what was seen in the last weeks.
_BEYOND_SEEN: Final = 1.5
#: Minutes before and after the same time of yesterday.
_HOURS_OF_DAY: Final = 60
#: Fields of a statement that are stored.
_STATED: Final = 7
#: Statements that wait for what happens: no lead time is longer.
_MAX_STATEMENTS: Final = 2 * MINUTES_A_DAY


@dataclass(frozen=True, slots=True)
class Statement:
    """What was said at a minute, to learn from what comes of it."""

    expected: float
    """Launches less departures."""
    deviation: float
    """Standard deviation of it."""
    assured: int
    """Placeholders for users who are known to come."""
    following: int
    """Placeholders that follow demand."""
    steady: int | None = None
    """The steady number, if it is in use instead."""
    present: int = 0
    """Servers that ran."""
    slots: int = 1
    """Servers that fit a node."""


@dataclass(frozen=True, slots=True)
class JudgedForecast:
    """A forecast whose lead time is over, and what came.

    Attributes
    ----------
    expected
        Launches less departures.
    placeholders
        With its safety.
    growth
        The largest growth of the number of servers within a lead time.
    """

    expected: float
    placeholders: int
    growth: int

    @property
    def is_enough(self) -> bool:
        """Whether the placeholders were enough for what came."""
        return self.growth <= self.placeholders


class DemandRecord:
    """Counts, rates, safety factor and held figures of one profile group.

    Each minute: `observe` the minute that is over, make a forecast, and `note` it.

    Parameters
    ----------
    begin
        The first minute that will be observed.
    settings
        Those of the forecasts.
    """

    def __init__(self, begin: int, settings: DemandSettings) -> None:
        self.settings = settings
        self.counts = MinuteCounts(begin)
        self.recent = DecayingMean()
        """Launches a minute that no calendar entry explains."""
        self.departing = DecayingMean()
        self.calibration = Calibration(settings.hit_rate)
        self.allowed_misses = AllowedMisses(settings.hit_rate)
        self.steady = SteadyNumber()
        self.wall_clock = WallClock(settings.zone, settings.holidays, settings.weeks)
        self.held_expected = RunningMaximum()
        self.held_launches = RunningMaximum()
        self.held_usual = RunningMaximum()
        """Placeholders for launches that no entry explains."""
        self.held_open = RunningMaximum()
        """Placeholders that other sources than the calendar want, to be held while an entry's placeholders come."""
        self.burst = BurstDetector()
        self.windows = OpenWindows()
        self.seen = RunningMaximum()
        """Largest growth of the number of servers within a lead time that ends at a minute."""
        self.held_total = RunningMaximum()
        """Servers, and the placeholders for usual launches above the floor, together."""
        self.unused = 0
        """Placeholders that were wanted last, less the launches since then, and less one a minute."""
        self.judged: JudgedForecast | None = None
        """The forecast of a lead time ago; None if there was none."""
        self._actual = DecayingMean()
        self._usual = DecayingMean()
        self._usual_now: float | None = None
        self._said: dict[int, Statement] = {}
        self._lead = 0
        self._is_awaiting = False
        self._announced_at = 0
        """The last minute at which users of an entry might join."""
        self._fading = 0.5 ** (1 / settings.calibration_days)
        self._renew_at = begin + MINUTES_A_DAY

    @property
    def level(self) -> float:
        """Launches of the last day in relation to the same times of past weeks."""
        return (self._actual.total + _LEVEL_PRIOR) / (self._usual.total + _LEVEL_PRIOR)

    def examples(self, minute: int) -> tuple[tuple[int, ...], int]:
        """Minutes back to the same time of past weeks, and minutes around it that are looked at, too.

        While no week is known, yesterday is the example: the hours in which users come, not the minutes of a class.
        Users whom an entry announced are no example.
        """
        back, around = self.wall_clock.minutes_back(minute), whole_minutes(self.settings.around)
        if not self.settings.weeks or any(self.counts.knows(minute - each) for each in back):
            return back, around
        yesterday = self.wall_clock.yesterday(minute)
        if yesterday is None or self._announced_at >= minute - yesterday - _HOURS_OF_DAY:
            return (), around
        return (yesterday,), _HOURS_OF_DAY

    def bound(self, now: int) -> float:
        """The most placeholders that launches may want: half more than they needed in any lead time of the last weeks.

        Infinite in the first week, of which little is known.
        """
        if not self.counts.knows(now - MINUTES_A_WEEK):
            return inf
        return _BEYOND_SEEN * self.seen.held(now, max(self.settings.weeks, 4) * MINUTES_A_WEEK + MINUTES_A_DAY)

    def observe(self, minute: int, arrivals: int, departures: int = 0) -> None:
        """Take in a minute that is over.

        Raises
        ------
        ValueError
            If it was observed before, or a count is negative.
        """
        missing = minute - self.counts.end
        self.counts.record(minute, arrivals, departures)
        self.unused = max(self.unused - arrivals - 1, 0)
        rate = self.recent.mean
        decay = self._decay(rate)
        self.skip(missing)
        if missing:
            self.burst.ignore(minute - 1)
        # A rush that is announced, that recurs, or that is a burst says nothing about later launches.
        if self._is_awaiting:
            self.burst.ignore(minute)
        is_burst = self.burst.observe(self.counts, minute, max(rate, self._usual_now or 0.0))
        self.recent.add(rate if self._is_awaiting or is_burst else arrivals, decay)
        self.departing.add(departures, decay)
        if self._lead:
            self.seen.add(minute, self.counts.largest_growth(minute + 1, self._lead))
        if self._usual_now is not None:
            self._actual.add(arrivals, _LEVEL_DECAY)
            self._usual.add(self._usual_now, _LEVEL_DECAY)
        self._learn(minute + 1, arrivals)

    def note(self, minute: int, lead: int, launches: float, expected: float, usual: float | None) -> None:
        """Note what the estimators say at a minute, before anything is held.

        Parameters
        ----------
        lead
            Minutes.
        usual
            Launches a minute of past weeks; None without any.
        """
        self._lead = lead
        self.held_expected.add(minute, expected)
        self.held_launches.add(minute, launches)
        self._usual_now = usual

    def said(self, minute: int, statement: Statement, *, is_awaiting: bool) -> None:
        """Remember what was said at a minute, to learn from what comes of it.

        Parameters
        ----------
        is_awaiting
            Whether users of a calendar entry may join now.
        """
        if len(self._said) > _MAX_STATEMENTS:
            self._said.clear()
        self._said[minute] = statement
        self._is_awaiting = is_awaiting
        if is_awaiting:
            self._announced_at = minute

    def state(self) -> dict[str, Any]:
        """What is remembered beside the counts, as JSON: `restore` goes on as if this record had never ended."""
        return {
            **{name: part.state() for name, part in self._parts().items()},
            "unused": self.unused,
            "usual_now": self._usual_now,
            "said": [[minute, *astuple(each)] for minute, each in self._said.items()],
            "lead": self._lead,
            "is_awaiting": self._is_awaiting,
            "announced_at": self._announced_at,
            "renew_at": self._renew_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what another record has remembered.

        Raises
        ------
        ValueError
            If this is not the state of a record. This record must not be used then.
        """
        try:
            for name, part in self._parts().items():
                part.restore(state[name])
            self.unused = int(state.get("unused", 0))
            usual = state["usual_now"]
            self._usual_now = float(usual) if usual is not None else None
            self._said = {int(minute): _statement(*each[:_STATED]) for minute, *each in state["said"]}
            self._lead, self._renew_at = int(state["lead"]), int(state["renew_at"])
            self._is_awaiting, self._announced_at = bool(state["is_awaiting"]), int(state["announced_at"])
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"this is no state of a demand record: {error!r}") from None

    def _parts(self) -> dict[str, Any]:
        """What has a state of its own."""
        return {
            "recent": self.recent,
            "departing": self.departing,
            "calibration": self.calibration,
            "allowed_misses": self.allowed_misses,
            "steady": self.steady,
            "held_expected": self.held_expected,
            "held_launches": self.held_launches,
            "held_usual": self.held_usual,
            "held_open": self.held_open,
            "held_total": self.held_total,
            "burst": self.burst,
            "windows": self.windows,
            "seen": self.seen,
            "actual": self._actual,
            "usual": self._usual,
        }

    def later(self) -> DemandRecord:
        """A record to ask about later minutes, in their order: what is noted there changes nothing here.

        Counts, safety factor and level are taken from this record.
        """
        found = copy.copy(self)
        found.recent, found.departing = self.recent.copy(), self.departing.copy()
        found.held_expected, found.held_launches = self.held_expected.copy(), self.held_launches.copy()
        found.held_total, found.held_usual = self.held_total.copy(), self.held_usual.copy()
        found.held_open = self.held_open.copy()
        found.windows, found.seen, found.burst = self.windows.copy(), self.seen.copy(), self.burst.copy()
        found._said = {}
        return found

    def skip(self, minutes: int) -> None:
        """Let minutes pass of which nothing is known: the recent rates fade, and no counts are recorded."""
        decay = self._decay(self.recent.mean)
        if minutes:
            self.burst.ignore(self.counts.end - 1)
        if minutes and decay:
            self.recent.skip(minutes, decay)
            self.departing.skip(minutes, decay)

    def _decay(self, rate: float) -> float:
        """Factor by which a minute shrinks in the recent rate; 0 before the first forecast."""
        if not self._lead:
            return 0.0
        shortest, longest = _SHORTEST_MEMORY * self._lead, _LONGEST_MEMORY * self._lead
        half_life = self.settings.memory / rate if rate * longest > self.settings.memory else longest
        return float(0.5 ** (1 / max(half_life, shortest)))

    def _learn(self, end: int, arrivals: int) -> None:
        said = self._said.pop(end - self._lead, None)
        self.judged = None
        if said is not None:
            growth = self.counts.largest_growth(end, self._lead)
            following = placeholders_for(said.expected, said.deviation, self.calibration.factor)
            enough = max(following if said.steady is None else said.steady, said.assured)
            self.judged = JudgedForecast(said.expected, enough, growth)
            needs: Sequence[int] = ()
            if arrivals:
                needs = self._needs(said, end, arrivals, growth)
                self.calibration.add(needs, said.expected, said.deviation, said.assured)
            self.steady.add(needs, said.assured, said.following, end)
        if end >= self._renew_at:
            self._renew_at = end + MINUTES_A_DAY
            self.allowed_misses.renew()
            allowed = self.allowed_misses.share
            self.calibration.renew(self._fading, allowed)
            self.steady.renew(self._fading, allowed, self._wait_in_minutes)
            self._said = {minute: each for minute, each in self._said.items() if minute > end - self._lead}

    @property
    def _wait_in_minutes(self) -> float:
        """Minutes of an idle placeholder that the wait of one user is worth, by the hit rate (`hit_rate_of_costs`)."""
        return self.settings.hit_rate / (1.0 - self.settings.hit_rate) * self._lead

    def _needs(self, said: Statement, end: int, arrivals: int, growth: int) -> Sequence[int]:
        """Placeholders that each launch of the last minute has needed, in rising order.

        Where servers share nodes, a launch that fits the rest of a node needs one placeholder at most. Servers that
        have ended meanwhile have left their slots, as no node is removed so soon.
        """
        slots, present = said.slots, said.present
        if slots == 1:
            return range(growth - arrivals + 1, growth + 1)
        growth = self.counts.growth(end - self._lead, end)
        launches = range(present + growth - arrivals + 1, present + growth + 1)
        return [max((servers - 1) // slots * slots - present + 1, 1) for servers in launches]


def _statement(
    expected: float, deviation: float, assured: int, following: int, steady: int | None, present: int, slots: int
) -> Statement:
    """A statement that was stored."""
    return Statement(
        float(expected),
        float(deviation),
        int(assured),
        int(following),
        int(steady) if steady is not None else None,
        int(present),
        max(int(slots), 1),
    )
