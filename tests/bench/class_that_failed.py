"""A class of 250 users within a quarter of an hour, on nodes that take ten minutes: a real event, replayed.

Seventy servers run, 250 users more come from 17:00 on, most within five minutes (Berkeley's DataHub, 31 August 2026). Ten
servers fit a node, at most five nodes are started in a minute. Launches beside the class are drawn, as is how long servers run.
Judged are the launches from 17:00 to 17:30 of the last week. A wait is counted in whole minutes, so a user who does not
start at once counts as waiting more than 60 s.

The last rows are about users who are offered what is free now, in the form and while they wait. How many accept is not
known, nor what other choices have free: both are assumed, and printed. They take no slot of this choice and free none.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Final

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_WEEK, minute_of
from dra_spawner.scale_ahead.demand.policies import Buffer, DemandPolicy, ForecastDemand
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.classes import WeeklyClass, class_launches
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.traces import Trace

USERS: Final = 250
PRESENT: Final = 70
RAMP: Final = timedelta(minutes=15)
SEEDS: Final = range(1, 11)
KIND: Final = NodeKind("nodes", 10, (timedelta(minutes=10),), starts_per_minute=5.0)
FIRST: Final = datetime(2026, 8, 3, tzinfo=UTC)  # a Monday
BEGINS: Final = datetime(2026, 8, 31, 17, tzinfo=UTC)
#: Minutes that servers run, in the mean; as many launches a minute keep `PRESENT` of them running.
MINUTES: Final = 50.0
#: Assumed free slots of other choices at the begin, and shares of users who accept one.
FREE: Final = (50, 150)
ACCEPT: Final = (0.0, 0.5, 1.0)


def judge() -> bool:
    print(
        f"\nthe class that failed: {PRESENT} users, {USERS} more within {RAMP}, lead time 10 min, 5 node starts a minute"
    )
    print(f"  share that waits more than 60 s, mean and worst of {len(SEEDS)} drawings; aim")
    met = all(
        [
            _variant("three placeholders by hand, no history", Buffer(3), None),
            _variant("forecast, no entry, no history", ForecastDemand(), None),
            _variant("forecast, entry", ForecastDemand(), 0.01, entry=BEGINS),
            _variant("forecast, no entry, three weeks of history", ForecastDemand(), 0.05, weeks=3),
            _variant(
                "forecast, entry an hour late, three weeks of history",
                ForecastDemand(),
                0.10,
                weeks=3,
                entry=BEGINS + timedelta(hours=1),
            ),
            _variant(
                "forecast, entry an hour late, no history", ForecastDemand(), None, entry=BEGINS + timedelta(hours=1)
            ),
        ]
    )
    _with_offers()
    return met


def _with_offers() -> None:
    """Print what offers of what is free now would change for the forecast without entry and history, and its bound."""
    timelines = [_timeline(seed) for seed in SEEDS]
    lead = max(KIND.lead_times) // timedelta(minutes=1)
    bound = [sum(missed[:lead]) / sum(launches) for launches, missed in timelines]
    _row("no entry, no history; all nodes ordered at the first click", bound)
    for free in FREE:
        for accept in ACCEPT:
            shares = [(sum(missed) - min(accept * sum(missed), free)) / sum(launches) for launches, missed in timelines]
            _row(f"no entry, no history; {free} slots offered, {accept:.0%} accept", shares)


def _timeline(seed: int) -> tuple[Sequence[int], Sequence[int]]:
    """Launches and those that wait, by minute."""
    timeline = replay(replace(scenario(seed, 0, None), has_timeline=True), ForecastDemand()).timeline
    assert timeline is not None
    return timeline.launches, timeline.missed


def _row(name: str, shares: Sequence[float]) -> None:
    print(f"  {name:60} {sum(shares) / len(shares):6.1%} {max(shares):6.1%}", flush=True)


def _variant(
    name: str, policy: DemandPolicy, most: float | None, *, weeks: int = 0, entry: datetime | None = None
) -> bool:
    shares, idle = [], []
    for seed in SEEDS:
        result = replay(scenario(seed, weeks, entry), policy)
        shares.append(result.share_waiting())
        idle.append(result.idle_hours)
    mean, worst = sum(shares) / len(shares), max(shares)
    verdict = "" if most is None else f"  {most:.0%} at most: {'met' if worst <= most else 'MISSED'}"
    print(f"  {name:52} {mean:6.1%} {worst:6.1%}{verdict}  (idle {sum(idle) / len(idle):.0f} h)", flush=True)
    return most is None or worst <= most


def scenario(seed: int, weeks: int, entry: datetime | None) -> Scenario:
    """Four weeks with the class in the last one, and in so many weeks before it."""
    begin, end = minute_of(FIRST), minute_of(BEGINS) + 30
    usual = _usual(begin, end, seed)
    lesson = WeeklyClass("", USERS, BEGINS.weekday(), time(17), RAMP, absent=0.1)
    first = minute_of(BEGINS) - weeks * MINUTES_A_WEEK
    more = class_launches((lesson,), first, end, seed)
    trace = usual.with_more(more)
    draw = random.Random(seed)
    lengths = array("l", (max(round(draw.expovariate(1 / MINUTES)), 1) for _ in range(trace.total)))
    entries = () if entry is None else (Occurrence("class", "", entry, entry + timedelta(hours=1), USERS, ramp=RAMP),)
    trace = replace(trace, lengths=lengths)
    return Scenario(trace, KIND, entries, seed=seed, judged_from=minute_of(BEGINS))


def _usual(begin: int, end: int, seed: int) -> Trace:
    """Launches at a steady rate, by day and by night: the hardest case for a forecast that looks for patterns."""
    draw = random.Random(1000 + seed)
    launches = array("L", bytes(array("L").itemsize * (end - begin)))
    at = float(begin)
    while (at := at + draw.expovariate(PRESENT / MINUTES)) < end:
        launches[int(at) - begin] += 1
    return Trace(begin, launches)
