"""Bursts that nothing announced: prepared for while they go on, and forgotten afterwards."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime, timedelta
from random import Random

from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from dra_spawner.scale_ahead.demand.estimators.bursts import BurstDetector, burst_estimate
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, minute_of
from dra_spawner.scale_ahead.demand.policies import ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings

BEGIN = minute_of(datetime(2026, 11, 2, tzinfo=UTC))


def seen(launches: list[int], rate: float) -> tuple[BurstDetector, list[bool]]:
    counts, found, bursts = MinuteCounts(BEGIN), BurstDetector(), []
    for minute, came in enumerate(launches, BEGIN):
        counts.record(minute, came)
        bursts.append(found.observe(counts, minute, rate))
    return found, bursts


def test_a_burst_is_what_the_usual_rate_does_not_explain() -> None:
    assert seen([0, 40, 0, 0, 0, 0, 0], 0.1)[1] == [False, True, True, True, True, True, False]
    assert not any(seen([10] * 20, 10.0)[1])
    assert not any(seen([1, 2, 3, 2, 1], 0.1)[1])


def test_a_new_rate_is_no_burst_for_ever() -> None:
    _, bursts = seen([20] * 40, 0.1)
    assert bursts == [True] * 15 + [False] * 25


def test_announced_users_are_no_burst() -> None:
    counts, found = MinuteCounts(BEGIN), BurstDetector()
    for minute in range(BEGIN, BEGIN + 5):
        counts.record(minute, 40)
        found.ignore(minute)
    counts.record(BEGIN + 5, 1)
    assert not found.observe(counts, BEGIN + 5, 0.1)


def test_as_many_again_may_come_while_it_goes_on() -> None:
    found, _ = seen([0, 40, 20], 0.1)
    estimate = burst_estimate(found.launches)
    assert (estimate.source, estimate.assured, estimate.note) == (Source.BURST, 60, "60 launches in 5 min")
    assert burst_estimate(seen([0, 40, 0, 0, 0, 0, 0], 0.1)[0].launches).assured == 0


def test_a_quarter_of_an_hour_after_an_exam_the_target_is_as_usual() -> None:
    """300 users within three minutes, on a hub of 60 a day, without an entry; the target is at most half more than came."""
    draw, begins = Random(1), 9 * MINUTES_A_DAY + 540
    launches = array("L", (draw.random() < 60 / MINUTES_A_DAY for _ in range(begins + 60)))
    for _ in range(300):
        launches[begins + int(draw.triangular(0, 3, 0.5))] += 1
    demand = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    situation = GroupSituation(timedelta(minutes=10), slots_per_node=8)
    targets = []
    for minute, came in enumerate(launches):
        answer = demand.step(BEGIN + minute, came, 0, situation)
        targets.append(answer.placeholders if answer is not None else 0)
    usual = max(targets[begins - MINUTES_A_DAY : begins])
    assert 250 < max(targets[begins:]) <= 450
    assert max(targets[begins + 3 + 15 :]) <= usual
