"""Hubs whose launches are drawn: small and steady ones, batches at random, and an exam."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from dra_spawner.scale_ahead.demand.forecast import Forecast
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, MINUTES_A_WEEK, minute_of
from dra_spawner.scale_ahead.demand.policies import ForecastDemand, Question
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.replay import Scenario
from dra_spawner.scale_ahead.replay.traces import Durations, Trace

__all__ = ["BEGIN", "EXAM", "LEAD", "Said", "batches", "by_day", "exam", "hub", "launches"]

BEGIN: Final = minute_of(datetime(2026, 8, 31, tzinfo=UTC))  # a Monday
LEAD: Final = timedelta(minutes=10)


class Said:
    """The forecast, and all that it says."""

    name = "forecast"

    def __init__(self) -> None:
        self.answers: list[Forecast] = []

    def __call__(self, question: Question) -> Forecast:
        self.answers.append(ForecastDemand()(question))
        return self.answers[-1]


def launches(weeks: int, seed: int, rate: Callable[[int], float]) -> Trace:
    """Users who come one by one, so many a minute."""
    draw, minutes = Random(seed), weeks * MINUTES_A_WEEK
    found = array("L", bytes(array("L").itemsize * minutes))
    most = max(map(rate, range(0, MINUTES_A_DAY, 10)))
    at = draw.expovariate(most)
    while at < minutes:
        found[int(at)] += draw.random() * most < rate(int(at))
        at += draw.expovariate(most)
    return Trace(BEGIN, found)


def by_day(minute: int) -> float:
    """From eight in the morning to eight at night."""
    return 2.0 if 480 <= minute % MINUTES_A_DAY < 1200 else 0.0


def hub(trace: Trace, slots: int, learn_weeks: int) -> Scenario:
    if slots == 1:
        kind = NodeKind("pool", 1, (LEAD,), unneeded=timedelta(0))
    else:
        kind, trace = NodeKind("nodes", slots, (LEAD,)), trace.with_lengths(Durations(45.0, 1.0), 1)
    return Scenario(trace, kind, judged_from=BEGIN + learn_weeks * MINUTES_A_WEEK)


def batches(weeks: int, seed: int) -> Trace:
    """600 instances a day, in batches of 5 to 60 at random."""
    draw = Random(seed)
    rate = 600 / 32.5 / MINUTES_A_DAY
    return Trace(
        BEGIN,
        array("L", (draw.randrange(5, 61) if draw.random() < rate else 0 for _ in range(weeks * MINUTES_A_WEEK))),
    )


#: The first minute of an exam: noon of a Thursday, after four weeks.
EXAM: Final = BEGIN + 4 * MINUTES_A_WEEK + 3 * MINUTES_A_DAY + 720


def exam(seed: int, users: int = 300) -> Trace:
    """60 launches a day at any time for five weeks, and users who come within three minutes."""
    found, draw = launches(5, seed, lambda minute: 60 / MINUTES_A_DAY), Random(seed)
    for _ in range(users):
        found.launches[EXAM - BEGIN + draw.randrange(3)] += 1
    return found
