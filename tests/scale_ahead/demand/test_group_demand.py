"""Steps of one profile group: learning from the past equals learning live."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import GroupSituation
from dra_spawner.scale_ahead.demand.group_demand import GroupDemand
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, datetime_of
from dra_spawner.scale_ahead.demand.policies import Buffer, ForecastDemand
from dra_spawner.scale_ahead.demand.settings import DemandSettings
from tests.all_of_them import all_of_them
from tests.examples import example_count

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
        return 3 if 600 <= (minute - BEGIN) % week < 660 else 0

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


def random_day(seed: int) -> tuple[list[tuple[int, int, int]], list[GroupSituation]]:
    """Launches of some hours with classes, and situations: entries, limits that people change, nodes and spawns."""
    random = Random(seed)
    minutes, present = range(BEGIN, BEGIN + 900), 0
    begins = [datetime_of(random.choice(minutes)) for _ in range(4)]
    entries = tuple(
        Occurrence(f"class {index}", "gpu", at, at + timedelta(hours=1), random.randrange(5, 80), source="physics")
        for index, at in enumerate(begins)
    )
    floor, slots, counts, situations = 0, random.choice((None, 1, 8)), [], []
    for minute in minutes:
        rush = sum(each.users / 15 for each in entries if 0 <= minute - each.begins.timestamp() // 60 < 15)
        arrivals = int(random.expovariate(1 / (0.3 + rush)))
        departures = min(int(random.expovariate(2)), present)
        present += arrivals - departures
        floor = random.randrange(5) if random.random() < 0.01 else floor
        near = tuple(each for each in entries if abs(each.begins.timestamp() // 60 - minute) < 200)
        counts.append((minute, arrivals, departures))
        lead = timedelta(minutes=10 if minute < BEGIN + 300 else 12)
        pending = random.choice((0, 0, 0, 1))
        a_minute = random.choice((None, 2.0))
        situations.append(
            GroupSituation(lead, present, pending, pending, floor, 70, near, slots, node_starts_per_minute=a_minute)
        )
    return counts, situations


@all_of_them("seed", range(example_count(50)))
def test_a_demand_that_is_restored_goes_on_as_if_it_had_never_ended(seed: int) -> None:
    """With entries, limits that people change, and forecasts on hold: at any minute, to the last digit."""
    counts, situations = random_day(seed)
    ends = Random(-seed).randrange(200, 800)
    lived = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    for (minute, arrivals, departures), situation in zip(counts[:ends], situations, strict=False):
        lived.step(minute, arrivals, departures, situation, {}, (arrivals, minute % 3))
    stored = json.loads(json.dumps(lived.state()))
    known = {minute: (arrivals, departures) for minute, arrivals, departures in counts[:ends] if arrivals or departures}
    restored = GroupDemand.restored(
        stored, known, DemandSettings(), ForecastDemand(), earliest=BEGIN - 99, latest=BEGIN + ends
    )
    assert restored.state() == lived.state()
    for (minute, arrivals, departures), situation in zip(counts[ends:], situations[ends:], strict=True):
        served = (arrivals, minute % 2)
        theirs, ours = (each.step(minute, arrivals, departures, situation, {}, served) for each in (restored, lived))
        assert theirs == ours, minute - BEGIN


def newer(state: Any) -> Any:
    """The state of a version that notes more: each object has one more key, each tuple of known length one more item."""
    if isinstance(state, dict):
        return {name: newer(each) for name, each in state.items() if name not in ("launches", "needs")} | {
            "newer": [1],
            **{name: state[name] for name in ("launches", "needs") if name in state},
        }
    if isinstance(state, list) and state and all(isinstance(each, list) for each in state):
        return [[*newer(each), "newer"] if each else each for each in state]
    return state


def test_a_state_of_a_newer_version_is_used_as_far_as_it_is_known() -> None:
    """As after going back to the version before."""
    counts, situations = random_day(7)
    lived = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    for (minute, arrivals, departures), situation in zip(counts[:700], situations, strict=False):
        lived.step(minute, arrivals, departures, situation, {}, (arrivals, minute % 3))
    known = {minute: (arrivals, departures) for minute, arrivals, departures in counts[:700]}
    state = json.loads(json.dumps(lived.state()))
    more = newer(state)
    for name in ("recent", "departing", "burst"):
        more["record"][name] = [*more["record"][name], "newer"]
    more["record"]["windows"] = [*map(newer, state["record"]["windows"]), "newer"]
    more["record"]["steady"]["sums"] += ["newer"]
    more["record"]["steady"]["hours"] += ["newer"]
    assert more["record"]["said"] != state["record"]["said"]
    assert more["situation"] != state["situation"]
    restored = GroupDemand.restored(
        more, known, DemandSettings(), ForecastDemand(), earliest=BEGIN - 99, latest=BEGIN + 700
    )
    assert restored.state() == lived.state()


def test_a_state_that_cannot_be_used_is_refused() -> None:
    lived = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    lived.learn(launches(60), LEAD)
    state = lived.state()
    assert lived.record.counts.end == BEGIN + 60

    def restored(state: Any, earliest: int = BEGIN, latest: int = BEGIN + 60) -> GroupDemand:
        return GroupDemand.restored(
            state,
            {},
            DemandSettings(),
            ForecastDemand(),
            earliest=earliest,
            latest=latest,
        )

    assert restored(state).record.counts.end == BEGIN + 60
    # Its clock was ahead by some minutes.
    assert restored(state, latest=BEGIN + 57).record.counts.end == BEGIN + 57
    bad = [{}, [], {**state, "version": 1}, {**state, "record": {}}, {**state, "situation": {"lead": "soon"}}]
    bad += [{**state, "situation": {**state["situation"], "present": "many"}}, {**state, "situation": 3}]
    bad += [{**state, "end": each} for each in (None, float("inf"), "x")]
    bad += [{**state, "record": {**state["record"], name: 3}} for name in state["record"] if name != "lead"][:10]
    for each in bad:
        with pytest.raises(ValueError, match=r"state|could not|invalid"):
            restored(each)
    with pytest.raises(ValueError, match="counts are known from"):
        restored(state, latest=BEGIN + 50)
    with pytest.raises(ValueError, match="counts are known from"):
        restored(state, earliest=BEGIN + 99, latest=BEGIN + 200)


@all_of_them("seed", range(example_count(100)))
def test_a_target_only_rises_until_an_entry_begins(seed: int) -> None:
    """Beside usual launches, on nodes of any size: what is deleted while the class's placeholders come, comes again.

    A user who comes takes a placeholder, and none comes in its place.
    """
    random = Random(23 + seed)
    begins = BEGIN + 400
    rate, in_total = random.choice((0.0, 0.05, 0.5, 3.0)), random.random() < 0.3
    entry = Occurrence(
        "class",
        "",
        datetime_of(begins),
        datetime_of(begins + 60),
        random.choice((2, 10, 48, 200)),
        "in total" if in_total else "additional",
    )
    situation = GroupSituation(
        timedelta(minutes=9),
        floor=random.choice((0, 3)),
        occurrences=(entry,),
        slots_per_node=random.choice((None, 1, 4, 8)),
        node_starts_per_minute=random.choice((None, 1.0, 4.0)),
    )
    demand = GroupDemand(BEGIN, DemandSettings(), ForecastDemand())
    present, before, leaving = 0, 0, Counter[int]()
    for minute in range(BEGIN, begins):
        arrivals = sum(random.random() < rate / 10 for _ in range(10))
        leaving.update(minute + 1 + int(random.expovariate(1 / 40)) for _ in range(arrivals))
        departures = min(leaving[minute], present)
        present += arrivals - departures
        found = demand.step(minute, arrivals, departures, replace(situation, present=present))
        assert found is not None
        if demand.record.windows.minutes_since_first(minute + 1):
            may_be_of_entry = in_total or minute + 1 > begins - 5
            assert found.placeholders >= before - (arrivals if may_be_of_entry else 0), (
                minute + 1 - begins,
                found.reason,
            )
        before = found.placeholders
