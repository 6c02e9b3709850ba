"""The replay: base-stock arithmetic, nodes with slots, limits, calendars, misses."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.demand.policies import Buffer, CalendarOnly, ForecastDemand
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.classes import WeeklyClass, class_launches, class_occurrences
from dra_spawner.scale_ahead.replay.equal_hit import smallest_buffer
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.traces import Durations, Trace
from dra_spawner.scale_ahead.reports.misses import MissCause
from tests.all_of_them import all_of_them
from tests.examples import example_count

BEGIN = minute_of(datetime(2026, 11, 2, tzinfo=UTC))  # a Monday
LEAD = 8
EXAMPLES = 30


def kind(slots: int = 1, lead: int = LEAD, **more: Any) -> NodeKind:
    values: dict[str, Any] = {"unneeded": timedelta(0)} | more
    return NodeKind("nodes", slots, (timedelta(minutes=lead),), **values)


def scenario(launches: list[int], lengths: list[int] | None = None, nodes: NodeKind | None = None) -> Scenario:
    known = None if lengths is None else array("l", lengths)
    return Scenario(Trace(BEGIN, array("L", launches), known), nodes or kind())


@settings(max_examples=example_count(EXAMPLES))
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 12), st.integers(1, 9))
def test_a_fixed_number_is_a_base_stock_policy(launches: list[int], number: int, lead: int) -> None:
    """A launch is a hit if fewer than the number came within the lead time before it (inventory theory)."""
    result = replay(scenario(launches, nodes=kind(lead=lead)), Buffer(number))
    hits = idle = 0
    for minute, came in enumerate(launches):
        # The first order is that of the end of the first minute.
        ready = number if minute >= lead else 0
        before = sum(launches[minute - lead + 1 : minute]) if minute >= lead else 0
        hits += min(max(ready - before, 0), came)
        idle += max(ready - before - came, 0)
    assert (result.hits, result.idle_hours) == (hits, pytest.approx(idle / 60))


def test_without_placeholders_everybody_waits_for_a_node() -> None:
    result = replay(scenario([0, 2, 0, 1] + [0] * 20), Buffer(0))
    assert (result.hits, result.waits, result.idle_hours) == (0, {0: 0, LEAD: 3}, 0.0)


def test_gaps_of_a_trace_are_not_judged() -> None:
    """Five days without a record: neither idle placeholders nor days; the figures a day are those of the record."""
    launches = ([0] * 30 + [1] + [0] * 29) * 48
    gap = [0] * 5 * 1440
    whole = scenario([*launches, *gap, *launches])
    first = BEGIN + len(launches)
    known = replace(whole, trace=replace(whole.trace, gaps=((first, first + len(gap)),)))
    with_gap, without = replay(known, Buffer(2)), replay(scenario([*launches, *launches]), Buffer(2))
    assert (with_gap.days, with_gap.hits) == (without.days, without.hits) == (4.0, 96)
    assert with_gap.idle_hours_a_day == pytest.approx(without.idle_hours_a_day, rel=0.01)
    assert replay(whole, Buffer(2)).days == 9.0
    later = replace(known, judged_from=first + 1440)
    assert replay(later, Buffer(2)).days == 2.0


def test_a_slot_that_is_given_back_serves_the_next() -> None:
    launches = [1] + [0] * 19 + [1] + [0] * 30
    result = replay(scenario(launches, [5, 5], kind(unneeded=timedelta(minutes=30))), Buffer(0))
    assert (result.hits, result.free, result.node_starts) == (0, 1, 1)


def test_servers_are_packed_and_empty_nodes_go() -> None:
    launches = [4] + [0] * 60
    nodes = kind(2, unneeded=timedelta(minutes=10))
    result = replay(scenario(launches, [10, 10, 20, 20], nodes), Buffer(0))
    # Two nodes: one until 8 + 10 and the wait of 10 minutes, one ten minutes longer.
    assert result.node_starts == 2
    assert result.node_hours == pytest.approx((LEAD + 10 + 10 + LEAD + 20 + 10) / 60, abs=4 / 60)


def test_a_node_that_is_needed_again_soon_stays() -> None:
    launches = ([1] + [0] * 19) * 5
    nodes = kind(unneeded=timedelta(minutes=30))
    assert replay(scenario(launches, [10] * 5, nodes), Buffer(0)).node_starts == 1
    assert replay(scenario(launches, [10] * 5, kind()), Buffer(0)).node_starts == 5


def test_a_limit_on_nodes_is_respected_and_reported() -> None:
    result = replay(scenario([9] + [0] * 40, [50] * 9, kind(2, max_nodes=3)), Buffer(0))
    assert result.node_starts == 3
    assert result.waits == {0: 0, LEAD: 6, LEAD + 1: 3}
    assert result.largest_misses[0].cause is MissCause.NODE_LIMIT


def test_nodes_may_start_one_after_the_other() -> None:
    result = replay(scenario([3] + [0] * 40, [50] * 3, kind(starts_per_minute=0.5)), Buffer(0))
    assert result.waits == {0: 0, LEAD: 1, LEAD + 2: 1, LEAD + 4: 1}
    assert result.largest_misses[0].cause is MissCause.START_RATE


def test_lead_times_are_drawn_by_the_seed() -> None:
    drawn = NodeKind("nodes", 1, tuple(timedelta(minutes=each) for each in (2, 9, 30)))
    base = scenario([1, 0, 0, 0, 0] * 200, nodes=drawn)
    first, again, other = (replay(replace(base, seed=seed), Buffer(3)) for seed in (1, 1, 2))
    assert first == again
    assert first.waits != other.waits


def test_the_placeholders_of_the_chart_land_where_the_image_is_not() -> None:
    """A new node is ready after 8 minutes and has the image after 12: the launch at minute 10 gets that node."""
    launches = [0] * 10 + [1] + [0] * 30
    nodes = kind(2, image_time=timedelta(minutes=4))
    chart = replay(scenario(launches, [60], nodes), Buffer(2), as_z2jh=True)
    ours = replay(scenario(launches, [60], nodes), Buffer(2))
    assert (chart.hits, chart.waits) == (0, {0: 0, 2: 1})
    assert (ours.hits, ours.waits) == (0, {0: 0, 2: 1})
    warm = [0] * 30 + [1] + [0] * 9 + [1] + [0] * 30
    chart = replay(scenario(warm, [60, 60], nodes), Buffer(2), as_z2jh=True)
    ours = replay(scenario(warm, [60, 60], nodes), Buffer(2))
    # The second launch preempts the youngest placeholder, on the node that is pulling the image; ours takes the other.
    assert (chart.hits, chart.waits[2]) == (1, 1)
    assert ours.hits == 2


def test_only_the_judged_time_counts() -> None:
    base = scenario([1] * 100)
    late = replay(replace(base, judged_from=BEGIN + 60), Buffer(20))
    assert (late.launches, late.hits, late.days) == (40, 40, 40 / 1440)


def test_servers_that_wait_at_the_end_count_as_waiting() -> None:
    result = replay(scenario([0, 0, 2]), Buffer(0))
    assert (result.share_waiting(), sum(result.waits.values())) == (1.0, 2)


def poisson_trace(days: int, rate: float, seed: int = 3) -> Trace:
    draw = random.Random(seed)
    launches = array("L", bytes(array("L").itemsize * days * 1440))
    at = 0.0
    while (at := at + draw.expovariate(rate)) < len(launches):
        launches[int(at)] += 1
    return Trace(BEGIN, launches)


def test_the_forecast_keeps_its_hit_rate_and_wastes_less_where_demand_varies() -> None:
    draw = random.Random(4)
    by_day = array("L", poisson_trace(14, 3.0).launches)
    for minute, count in enumerate(by_day):
        share = 0.5 - 0.5 * math.cos(minute % 1440 * math.tau / 1440)
        by_day[minute] = sum(draw.random() < share for _ in range(count))
    base = Scenario(Trace(BEGIN, by_day), kind(), judged_from=BEGIN + 7 * 1440)
    ours = replay(base, ForecastDemand())
    number, fixed = smallest_buffer(base, ours.hit_rate, guess=30)
    assert ours.hit_rate > 0.985
    assert ours.idle_hours < 0.75 * fixed.idle_hours
    assert replay(base, Buffer(number - 1)).hit_rate < ours.hit_rate <= fixed.hit_rate


def test_poisson_demand_needs_the_number_of_the_theory() -> None:
    """Erlang's loss recursion gives a Poisson tail: hits of a base-stock policy are P(demand of the lead time < number)."""
    number, mean = 12, LEAD - 0.5  # of a launch's own minute half is over
    term = total = math.exp(-mean)
    for count in range(1, number):
        term *= mean / count
        total += term
    result = replay(Scenario(poisson_trace(15, 1.0), kind()), Buffer(number))
    assert result.hit_rate == pytest.approx(total, abs=0.01)


LESSON = WeeklyClass("", 60, 2, time(10), timedelta(minutes=10))


def with_class(weeks: int, entry_late: int | None = None) -> Scenario:
    end = BEGIN + weeks * 7 * 1440
    trace = class_launches((LESSON,), BEGIN, end, 1)
    occurrences: tuple[Occurrence, ...] = ()
    if entry_late is not None:
        late = timedelta(minutes=entry_late)
        occurrences = tuple(
            replace(each, begins=each.begins + late, ends=each.ends + late)
            for each in class_occurrences((LESSON,), BEGIN, end)
        )
    nodes = kind(10, starts_per_minute=2.0, unneeded=timedelta(minutes=10))
    return Scenario(trace.with_lengths(Durations(60.0, 0.3), 1), nodes, occurrences)


def test_nobody_waits_in_a_class_with_an_entry() -> None:
    for policy in (ForecastDemand(), CalendarOnly()):
        assert replay(with_class(1, entry_late=0), policy).share_waiting() == 0.0


def test_most_of_an_unannounced_class_waits_the_first_time() -> None:
    assert replay(with_class(1), ForecastDemand()).share_waiting() > 0.5


def test_a_class_that_came_three_times_waits_no_more() -> None:
    base = with_class(4)
    judged = replace(base, judged_from=BEGIN + 21 * 1440)
    assert replay(judged, ForecastDemand()).share_waiting() == 0.0


def test_nothing_is_left_an_hour_after_the_class() -> None:
    base = replace(with_class(1, entry_late=0), has_timeline=True)
    timeline = replay(base, ForecastDemand()).timeline
    assert timeline is not None
    begins = 2 * 1440 + 600
    assert max(timeline.warm[begins - 5 : begins + 1]) == 60
    assert max(timeline.target[begins + 180 :]) == 0


def test_the_entry_of_a_miss_would_have_prevented_the_miss() -> None:
    base = replace(with_class(1), kind=kind(10))
    miss = replay(base, ForecastDemand()).largest_misses[0]
    entry = miss.calendar_entry("")
    assert miss.cause is MissCause.UNEXPECTED
    assert datetime_of(miss.begins) == datetime(2026, 11, 4, 10, tzinfo=UTC)
    assert replay(replace(base, occurrences=(entry,)), ForecastDemand()).share_waiting() == 0.0


def test_a_trace_from_later_on_keeps_its_lengths() -> None:
    trace = Trace(BEGIN, array("L", [2, 0, 1, 3]), array("l", [1, 2, 3, 4, 5, 6]))
    late = trace.since(BEGIN + 2)
    assert (late.begin, list(late.launches), list(late.lengths or ())) == (BEGIN + 2, [1, 3], [3, 4, 5, 6])


def test_lengths_stay_with_their_launches() -> None:
    trace = Trace(BEGIN, array("L", [2, 0, 1]), array("l", [1, 2, 3]))
    more = Trace(BEGIN - 1, array("L", [1, 1, 2, 0, 5]), array("l", [90, 91, 92, 93, 94, 95, 96, 97, 98]))
    both = trace.with_more(more)
    assert (list(both.launches), list(both.lengths or ())) == ([3, 2, 1], [1, 2, 91, 92, 93, 3])
    unknown = Trace(BEGIN, array("L", [1]))
    assert list(trace.with_more(unknown).lengths or ()) == [1, 2, -1, 3]
    assert list(unknown.with_more(trace).lengths or ()) == [-1, 1, 2]


def test_all_users_of_a_class_come_within_its_ramp() -> None:
    trace = class_launches((LESSON,), BEGIN, BEGIN + 14 * 1440, 5)
    begins = 2 * 1440 + 600
    assert sum(trace.launches[begins : begins + 10]) == 60
    assert sum(trace.launches[begins : begins + 4]) > 30
    assert trace.total == 120


@all_of_them(
    "values, problem",
    {
        "slots": ({"slots": 0}, "slots is 0"),
        "no lead time": ({"lead_times": ()}, "lead_times must have"),
        "no time": ({"lead_times": (timedelta(0),)}, "each more than 0"),
        "max-nodes": ({"max_nodes": -1}, "max_nodes is -1"),
        "starts": ({"starts_per_minute": 0.0}, "starts_per_minute is 0.0"),
        "price": ({"price": -1.0}, "price is -1.0"),
        "unneeded": ({"unneeded": timedelta(-1)}, "must not be negative"),
    },
)
def test_nodes_that_make_no_sense_are_refused(values: dict[str, Any], problem: str) -> None:
    usual: dict[str, Any] = {"name": "nodes", "slots": 1, "lead_times": (timedelta(minutes=8),)}
    with pytest.raises(ValueError, match=problem):
        NodeKind(**(usual | values))
