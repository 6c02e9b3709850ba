"""Steps of one profile group: learning from the past equals learning live."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from dra_spawner.calendars.occurrences import Occurrence
from dra_spawner.placeholders.planner.demand.estimates import Source
from dra_spawner.placeholders.planner.demand.forecast import GroupSituation
from dra_spawner.placeholders.planner.demand.group_demand import GroupDemand
from dra_spawner.placeholders.planner.demand.minutes import MINUTES_A_DAY, datetime_of
from dra_spawner.placeholders.planner.demand.policies import Buffer, ForecastDemand
from dra_spawner.placeholders.planner.demand.settings import DemandSettings

BEGIN = 29_000_000
LEAD = GroupSituation(timedelta(minutes=10))


def launches(minutes: int) -> list[tuple[int, int, int]]:
    random = Random(3)
    return [(BEGIN + minute, int(random.expovariate(1.0)), int(random.random() < 0.5)) for minute in range(minutes)]


def test_learning_from_the_past_equals_learning_live() -> None:
    past = launches(3 * MINUTES_A_DAY)
    lived, taught = (GroupDemand(BEGIN, DemandSettings(), ForecastDemand()) for _ in range(2))
    for minute, arrivals, departures in past:
        lived.step(minute, arrivals, departures, LEAD)
    taught.learn(past, LEAD)
    after = BEGIN + len(past)
    assert lived.step(after, 2, 0, LEAD) == taught.step(after, 2, 0, LEAD)
    assert lived.record.calibration.factor == taught.record.calibration.factor


def test_each_forecast_is_judged_when_its_lead_time_is_over() -> None:
    demand = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    for minute in range(30):
        demand.step(BEGIN + minute, 1, 0, LEAD)
    judged = demand.record.judged
    assert judged is not None
    assert judged.growth == 10
    assert judged.is_enough
    demand.step(BEGIN + 30, 60, 0, LEAD)
    judged = demand.record.judged
    assert judged is not None
    assert judged.growth == 69
    assert not judged.is_enough


def test_later_minutes_are_answered_and_nothing_is_learned() -> None:
    """A weekday's rush of the last week, a calendar entry, and no placeholder after both."""
    week = 10_080

    def came(minute: int) -> int:
        return 3 if 600 <= (minute - BEGIN) % MINUTES_A_DAY < 660 else 0

    asked, untouched = (GroupDemand(BEGIN, DemandSettings(), ForecastDemand()) for _ in range(2))
    for demand in (asked, untouched):
        demand.learn(((minute, came(minute), 0) for minute in range(BEGIN, BEGIN + week + 500)), LEAD)
    now = BEGIN + week + 500
    begins = datetime_of(now + 300)
    entry = Occurrence("exam", "gpu", begins, begins + timedelta(hours=1), 40)
    situation = replace(LEAD, occurrences=(entry,), floor=1)
    answers = asked.ahead([now + 15, now + 130, now + 250, now + 300, now + 500], situation)
    assert [each and each.decided_by for each in answers] == [
        Source.FLOOR,
        Source.SEASONAL,
        Source.FLOOR,
        Source.CALENDAR,
        Source.FLOOR,
    ]
    assert [each and each.placeholders for each in answers][3:] == [40, 1]
    assert asked.step(now, 2, 0, LEAD) == untouched.step(now, 2, 0, LEAD)


def test_another_policy_answers() -> None:
    demand = GroupDemand(BEGIN, DemandSettings(), Buffer(7))
    answer = demand.step(BEGIN, 0, 0, LEAD)
    assert answer is not None
    assert answer.placeholders == 7
