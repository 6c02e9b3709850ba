"""Placeholders that follow demand against the best fixed number, on recorded launches.

Run ``python -m tests.bench.replay``. It needs the data of `../shared/data`, or ``--data DIRECTORY``; without, it says so and
stops. About 15 minutes.

Rows: mybinder.org's launches at the full rate and at a tenth (each launch kept with this probability), a tenth with two classes of
180 users a week (Tuesday and Thursday, within 15 minutes, up to 10 % stay away), and 71 launches a day. Lead time 8 minutes, 12 for
the last. The forecast has its defaults in all rows, tuned on the first 120 days; it runs through all days and is judged on the
last 59. The fixed number beside it is the smallest with
an equal hit rate *on the judged days*, which favours it. Where the numbers of placeholders are small, the next smaller one
may miss the hit rate by little: ``between`` compares with a mixture of both of exactly equal hit rate.

``pool``: each placeholder is a node of its own, and a slot is used once: no packing, no departures. That is the metric of
Microsoft's Intelligent Pooling. ``nodes``: ten slots a node, servers run 30 minutes (median, lognormal, sigma 1, drawn: the data
have no ends), packed on the busiest node; an empty node is removed after 10 minutes. ``at once`` are the hits if no placeholder
is replaced within the minute in which a launch takes it.
"""

from __future__ import annotations

import random
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import time as clock_time
from datetime import timedelta
from pathlib import Path

from dra_spawner.commands.replaying.trace_reader import read_trace
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY
from dra_spawner.scale_ahead.demand.policies import Buffer, ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.classes import WeeklyClass, class_launches, class_occurrences
from dra_spawner.scale_ahead.replay.equal_hit import smallest_buffer
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.replay.traces import Durations, Trace
from tests.bench import class_that_failed
from tests.bench.figures import options_parser, peak_megabytes

DATA = Path(__file__).parents[3] / "shared" / "data"
LEARN_DAYS = 120
JUDGED_DAYS = 59
#: Days before the judged ones from which fixed numbers run: they learn nothing.
LEAD_IN = 1
CLASSES = tuple(
    WeeklyClass("", 180, weekday, clock_time(hour), timedelta(minutes=15), absent=0.1)
    for weekday, hour in ((1, 15), (3, 18))
)
SERVERS = Durations(30.0, 1.0)
PER_NODE = 10


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    trace: Trace
    lead: timedelta
    least: float
    """Part by which the idle placeholder-hours are to be less."""
    has_calendar: bool = False
    least_on_nodes: float | None = None
    """The same on nodes of ten; None without an aim."""


def main() -> int:
    parser = options_parser(__doc__, seed=1)
    parser.add_argument("--data", type=Path, default=DATA, help="directory with mybinder-launches.csv.gz (%(default)s)")
    parser.add_argument("--rows", nargs="*", help="only these, by name; class: the class that failed; cost")
    parser.add_argument("--tuning", action="store_true", help="judge days 28 to 120 instead, as for tuning")
    parser.add_argument("--hit-rate", type=float, default=DemandSettings().hit_rate, help="target (%(default)s)")
    parser.add_argument("--number", type=int, help="the fixed number to compare with; without, it is searched for")
    parser.add_argument("--models", nargs="*", default=["pool", "nodes"], choices=["pool", "nodes"])
    options = parser.parse_args()
    file = options.data / "mybinder-launches.csv.gz"
    if not file.exists():
        print(f"{file} is absent, and nothing is measured without it", file=sys.stderr)
        return 2
    trace = read_trace(str(file), {"": "all"}).traces["all"]
    learn_days = LEARN_DAYS
    if options.tuning:
        trace, learn_days = Trace(trace.begin, trace.launches[: LEARN_DAYS * MINUTES_A_DAY]), 28
    failed = False
    for row in rows(trace, options.seed):
        if not options.rows or row.name in options.rows:
            failed |= not judge(
                row, learn_days, options.models, DemandSettings(hit_rate=options.hit_rate), options.number
            )
    if not options.rows or "cost" in options.rows:
        cost(trace.since(trace.end - JUDGED_DAYS * MINUTES_A_DAY))
    if not options.rows or "class" in options.rows:
        failed |= not class_that_failed.judge()
    print(f"memory: {peak_megabytes():.0f} MB at most")
    return int(failed)


def rows(trace: Trace, seed: int) -> Iterator[Row]:
    eight, twelve = timedelta(minutes=8), timedelta(minutes=12)
    yield Row("full rate", trace, eight, 0.40, least_on_nodes=0.40)
    tenth = thinned(trace, 0.1, seed)
    yield Row("tenth", tenth, eight, 0.30, least_on_nodes=0.40)
    with_classes = tenth.with_more(class_launches(CLASSES, trace.begin, trace.end, seed))
    yield Row("tenth + classes, no calendar", with_classes, eight, 0.80)
    yield Row("tenth + classes, calendar", with_classes, eight, 0.80, has_calendar=True)
    yield Row("71 a day", thinned(trace, 1 / 200, seed), twelve, 0.0)


def thinned(trace: Trace, share: float, seed: int) -> Trace:
    """The launches of a smaller hub: each launch is kept with the probability `share`."""
    draw = random.Random(seed).random  # no secret
    return Trace(trace.begin, array("L", (sum(draw() < share for _ in range(count)) for count in trace.launches)))


def judge(row: Row, learn_days: int, models: Sequence[str], settings: DemandSettings, number: int | None) -> bool:
    print(f"\n{row.name}, lead time {row.lead}")
    met = True
    if "pool" in models:
        pool = NodeKind("pool", 1, (row.lead,), unneeded=timedelta(0))
        met = _compare(row, pool, row.trace, learn_days, settings, row.least, number)
    if "nodes" in models:
        nodes = NodeKind("nodes", PER_NODE, (row.lead,))
        met &= _compare(
            row, nodes, row.trace.with_lengths(SERVERS, 1), learn_days, settings, row.least_on_nodes, number
        )
    return met


def cost(trace: Trace) -> None:
    """Print the costs of a replay: time that grows with the days, and memory."""
    print("\ncost of one replay of a forecast at the full rate, ten slots a node")
    nodes = NodeKind("nodes", PER_NODE, (timedelta(minutes=8),))
    for days in (JUDGED_DAYS / 2, JUDGED_DAYS):
        part = Trace(trace.begin, trace.launches[: int(days * MINUTES_A_DAY)]).with_lengths(SERVERS, 1)
        began = time.process_time()
        replay(Scenario(part, nodes), ForecastDemand())
        seconds = time.process_time() - began
        print(f"  {days:g} days, {part.total:,} launches: {seconds:.1f} s of processor time", flush=True)


def _compare(
    row: Row,
    kind: NodeKind,
    trace: Trace,
    learn_days: int,
    settings: DemandSettings,
    least: float | None,
    known: int | None,
) -> bool:
    label = kind.name
    judged_from = trace.begin + learn_days * MINUTES_A_DAY
    calendar = class_occurrences(CLASSES, trace.begin, trace.end) if row.has_calendar else ()
    whole = Scenario(trace, kind, calendar, judged_from=judged_from, has_timeline=True)
    began = time.process_time()
    ours = replay(whole, ForecastDemand(), settings)
    seconds = time.process_time() - began
    late = replace(whole, trace=trace.since(judged_from - LEAD_IN * MINUTES_A_DAY), occurrences=())
    if known is not None:
        number, fixed = known, replay(late, Buffer(known))
    else:
        number, fixed = smallest_buffer(late, ours.hit_rate, guess=max(round(ours.idle_hours_a_day / 12), 4))
    fewer = replay(late, Buffer(number - 1)) if number else fixed
    days = len(trace.launches) / MINUTES_A_DAY
    print(f"  {label}: {trace.total:,} launches in {days:.0f} days replayed in {seconds:.1f} s of processor time")
    for name, result in (("forecast", ours), (f"fixed:{number}", fixed), (f"fixed:{number - 1}", fewer)):
        print(f"    {name:12} {_figures(result, nodes=label == 'nodes')}", flush=True)
    less = 1 - ours.idle_hours / fixed.idle_hours
    between = 1 - ours.idle_hours / _mixture(fewer, fixed, ours.hit_rate)
    starts = ours.node_starts / max(fixed.node_starts, 1) - 1
    print(f"    less idle {less:.1%}, between {between:.1%}; node starts {starts:+.1%}", end="")
    print(f"; node-hours {ours.node_hours / fixed.node_hours - 1:+.1%}" if label == "nodes" else "", end="")
    print(
        "" if least is None else f"; wanted at least {least:.0%} less: {'met' if less >= least else 'MISSED'}",
        flush=True,
    )
    return least is None or less >= least


def _mixture(fewer: ReplayResult, more: ReplayResult, hit_rate: float) -> float:
    """Idle hours of a fixed number between two whole ones, of exactly this hit rate."""
    span = more.hit_rate - fewer.hit_rate
    share = (hit_rate - fewer.hit_rate) / span if span > 0 else 1.0
    return fewer.idle_hours + min(max(share, 0.0), 1.0) * (more.idle_hours - fewer.idle_hours)


def _figures(result: ReplayResult, *, nodes: bool) -> str:
    parts = [
        f"hits {result.hit_rate:.2%}",
        f"idle {result.idle_hours_a_day:8,.1f} h/day",
        f"node starts {result.node_starts / result.days:8,.1f}/day",
        f"p99.5 wait {result.wait_quantile(0.995)} min",
    ]
    if nodes:
        parts.append(f"node-hours {result.node_hours_a_day:8,.1f}/day")
        parts.append(f"at once {hits_at_once(result):.2%}")
    return ", ".join(parts)


def hits_at_once(result: ReplayResult) -> float:
    """Share of launches that found a placeholder which was there when their minute began; the result has a timeline."""
    timeline = result.timeline
    assert timeline is not None
    minutes = zip(timeline.launches, timeline.missed, timeline.warm, strict=True)
    return sum(min(launches - missed, warm) for launches, missed, warm in minutes) / sum(timeline.launches)


if __name__ == "__main__":
    sys.exit(main())
