"""What is possible on nodes of ten: idle placeholders of policies that know more than any forecast can.

Run ``python -m tests.bench.replay_bound``. It needs the data of `tests.bench.replay`, and judges the same days, launches and
servers; ``--tuning`` judges days 28 to 120 instead. About five minutes.

``each launch``: knows all launches and ends of servers, and serves all of them. The least that is possible is no more than this.

``rate``: knows the mean rates of launches and ends of the minutes before *and after* each minute, and that chance is added to
them. Windows, safety factors and times of the hold are tried *on the judged days*: no policy that must learn rates from the
past can be expected to be better than the best of them.

Each is replayed in two ways. ``all``: so many placeholders as may be needed within a lead time. ``fewest``: as few as need
the same nodes (`fewest_for_nodes`), but enough for the launches of a minute. "Less idle" compares with fixed numbers of
exactly the same hit rate (a mixture of two neighbours), which are replayed as they are. ``forecast``: the present forecast,
beside fixed numbers as they are, and beside fixed numbers with as few as need the same nodes.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import accumulate, pairwise, product
from math import sqrt
from statistics import NormalDist
from typing import Final

from dra_spawner.commands.replaying.trace_reader import read_trace
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import fewest_for_nodes
from dra_spawner.scale_ahead.demand.forecast import Forecast
from dra_spawner.scale_ahead.demand.hold import RunningMaximum
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY
from dra_spawner.scale_ahead.demand.policies import Buffer, DemandPolicy, ForecastDemand, Question
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.replay.traces import Trace
from tests.bench.figures import options_parser
from tests.bench.replay import DATA, LEAD_IN, LEARN_DAYS, PER_NODE, SERVERS, rows

ROWS: Final = ("full rate", "tenth")
WINDOWS: Final = (15, 60)
FACTORS: Final = (1.5, 2.0, 2.5)
HOLDS: Final = (0, 1)
#: Fixed numbers beside them, as parts of the one that the forecast is compared with.
PARTS: Final = (0.5, 0.75, 1.0, 1.3, 2.0)

#: Minutes around, hold in lead times, and safety factor of one policy.
Tried = tuple[int, int, float]


class Minutes:
    """Launches and ends of servers by the minute, if none waits."""

    def __init__(self, trace: Trace) -> None:
        self.begin = trace.begin
        self.launches = trace.launches
        self.ends = array("L", bytes(array("L").itemsize * len(trace.launches)))
        lengths = iter(trace.lengths or ())
        for index, count in enumerate(trace.launches):
            for _ in range(count):
                if (end := index + next(lengths)) < len(self.ends):
                    self.ends[end] += 1
        self._launched, self._ended = ([0, *accumulate(each)] for each in (self.launches, self.ends))

    def rates(self, minute: int, around: int, lead: int) -> tuple[float, float]:
        """Launches and ends of the coming lead time, by their rates from `around` minutes before it to as many after it."""
        first = max(minute - self.begin - around, 0)
        last = min(minute - self.begin + lead + around, len(self.launches))
        share = lead / (last - first)
        return (self._launched[last] - self._launched[first]) * share, (self._ended[last] - self._ended[first]) * share

    def growth(self, minute: int, lead: int) -> int:
        """The most servers that will run within a lead time, less those of now."""
        servers = most = 0
        for index in range(minute - self.begin, min(minute - self.begin + lead, len(self.launches))):
            servers -= self.ends[index]
            servers += self.launches[index]
            most = max(most, servers)
        return most

    def coming(self, minute: int) -> int:
        """Launches of a minute."""
        index = minute - self.begin
        return self.launches[index] if index < len(self.launches) else 0


class Knowing:
    """A policy that knows each launch, or their rates."""

    def __init__(
        self,
        minutes: Minutes,
        lead: int,
        *,
        is_fewest: bool,
        around: int | None = None,
        factor: float = 0.0,
        hold: int = 0,
    ) -> None:
        self.name = "each launch" if around is None else f"rate, {around} min, factor {factor:g}, hold {hold}"
        self._minutes, self._lead, self._is_fewest = minutes, lead, is_fewest
        self._around, self._factor, self._hold = around, factor, hold
        self._held = RunningMaximum()

    def __call__(self, question: Question) -> Forecast:
        now, present = question.now, question.situation.present
        if self._around is None:
            # One minute more, in which the node of an order of this minute comes.
            soon = self._minutes.coming(now)
            wanted = max(self._minutes.growth(now, self._lead + 1), soon)
        else:
            launches, ends = self._minutes.rates(now, self._around, self._lead)
            wanted = round(max(launches - ends, 0.0) + self._factor * sqrt(launches + ends))
            soon = round(launches / self._lead + self._factor * sqrt(launches / self._lead))
        self._held.add(now, present + wanted)
        wanted = max(int(self._held.held(now, self._hold * self._lead + 1)) - present, 0)
        if self._is_fewest and (free := question.situation.free_slots) is not None:
            wanted = max(fewest_for_nodes(wanted, free, PER_NODE), min(soon, wanted))
        return Forecast(wanted, (), decided_by=Source.FIXED)


class FewestOfFixed:
    """A fixed number, with as few placeholders as need the same nodes, but enough for the launches of a minute."""

    def __init__(self, minutes: Minutes, lead: int, number: int) -> None:
        self.name = f"fixed:{number}, fewest"
        self._minutes, self._lead, self._number = minutes, lead, number

    def __call__(self, question: Question) -> Forecast:
        wanted, free = self._number, question.situation.free_slots
        if free is not None:
            rate = self._minutes.rates(question.now, min(WINDOWS), self._lead)[0] / self._lead
            soon = round(rate + NormalDist().inv_cdf(DemandSettings().hit_rate) * sqrt(rate))
            wanted = max(fewest_for_nodes(wanted, free, PER_NODE), min(soon, wanted))
        return Forecast(wanted, (), decided_by=Source.FIXED)


class Fixed:
    """Fixed numbers, to compare with at equal hit rate."""

    def __init__(self, scenario: Scenario, number: int, policy: Callable[[int], DemandPolicy] = Buffer) -> None:
        numbers = sorted({max(round(number * part), 1) for part in PARTS})
        self._results = [replay(scenario, policy(each)) for each in numbers]

    def idle(self, hit_rate: float) -> float | None:
        """Idle hours a day of a mixture with a hit rate; None outside of what was replayed."""
        for fewer, more in pairwise(self._results):
            if fewer.hit_rate <= hit_rate <= more.hit_rate:
                part = (hit_rate - fewer.hit_rate) / max(more.hit_rate - fewer.hit_rate, 1e-9)
                return fewer.idle_hours_a_day + part * (more.idle_hours_a_day - fewer.idle_hours_a_day)
        return None


def main() -> int:
    parser = options_parser(__doc__, seed=1)
    parser.add_argument("--data", default=DATA, help="directory with mybinder-launches.csv.gz (%(default)s)")
    parser.add_argument("--rows", nargs="*", default=ROWS, choices=ROWS)
    parser.add_argument("--around", type=int, nargs="*", default=WINDOWS, help="minutes whose rates are known")
    parser.add_argument("--factors", type=float, nargs="*", default=FACTORS, help="safety factors")
    parser.add_argument("--holds", type=int, nargs="*", default=HOLDS, help="lead times for which a number is held")
    parser.add_argument("--tuning", action="store_true", help="judge days 28 to 120 instead")
    options = parser.parse_args()
    trace = read_trace(f"{options.data}/mybinder-launches.csv.gz", {"": "all"}).traces["all"]
    learned = LEARN_DAYS
    if options.tuning:
        trace, learned = Trace(trace.begin, trace.launches[: LEARN_DAYS * MINUTES_A_DAY]), 28
    for row in rows(trace, options.seed):
        if row.name in options.rows:
            tried = tuple(product(options.around, options.holds, options.factors))
            judge(row.name, row.trace.with_lengths(SERVERS, 1), row.lead, learned, tried)
    return 0


def judge(name: str, trace: Trace, lead: timedelta, learned: int, tried: Sequence[Tried]) -> None:
    judged_from = trace.begin + learned * MINUTES_A_DAY
    late_trace = trace.since(judged_from - LEAD_IN * MINUTES_A_DAY)
    late = Scenario(late_trace, NodeKind("nodes", PER_NODE, (lead,)), judged_from=judged_from)
    print(
        f"\n{name}: idle placeholder-hours a day, and how much less than fixed numbers of the same hit rate", flush=True
    )
    number = 110 if trace.total > 1_000_000 else 12
    fixed = Fixed(late, number)
    minutes, in_lead = Minutes(late.trace), lead // timedelta(minutes=1)
    for is_fewest in (False, True):
        which = "fewest" if is_fewest else "all"
        _line(f"each launch, {which}", replay(late, Knowing(minutes, in_lead, is_fewest=is_fewest)), fixed)
    ours = replay(Scenario(trace, late.kind, judged_from=judged_from), ForecastDemand())
    _line("forecast", ours, fixed)
    _line("  fixed numbers with as few", ours, Fixed(late, number, partial(FewestOfFixed, minutes, in_lead)))
    for policy, also in _rate_policies(minutes, in_lead, tried):
        _line(policy.name, replay(late, policy), fixed)
        _line("  the same, fewest", replay(late, also), fixed)


def _rate_policies(minutes: Minutes, lead: int, tried: Sequence[Tried]) -> Iterator[tuple[Knowing, Knowing]]:
    """All, and fewest; both need the same nodes."""
    for around, hold, factor in tried:
        yield (
            Knowing(minutes, lead, is_fewest=False, around=around, factor=factor, hold=hold),
            Knowing(minutes, lead, is_fewest=True, around=around, factor=factor, hold=hold),
        )


def _less(result: ReplayResult, fixed: Fixed) -> float | None:
    idle = fixed.idle(result.hit_rate)
    return 1 - result.idle_hours_a_day / idle if idle else None


def _line(name: str, result: ReplayResult, fixed: Fixed) -> None:
    less = _less(result, fixed)
    print(
        f"  {name:58} hits {result.hit_rate:.2%}, idle {result.idle_hours_a_day:7,.0f}, node starts"
        f" {result.node_starts / result.days:6.1f}, node-hours {result.node_hours_a_day:7,.1f}, less"
        f" {'-' if less is None else f'{less:.1%}'}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
