"""The same number at all times, on hubs where following demand is worth less: small, steady and bursty ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from dra_spawner.scale_ahead.demand.estimators.estimates import Source
from dra_spawner.scale_ahead.demand.forecast import Forecast
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, MINUTES_A_WEEK
from dra_spawner.scale_ahead.demand.policies import ForecastDemand, Question
from dra_spawner.scale_ahead.demand.steady_number import SteadyNumber
from dra_spawner.scale_ahead.replay.equal_hit import smallest_buffer
from dra_spawner.scale_ahead.replay.replay import replay
from dra_spawner.scale_ahead.replay.results import ReplayResult
from dra_spawner.scale_ahead.replay.traces import Trace
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.scale_ahead.demand.drawn_hubs import BEGIN, LEAD, Said, batches, by_day, hub, launches

SHAPES: Final = tuple(
    (launches_a_day, is_by_day, slots)
    for launches_a_day in (3, 10, 30, 71, 288)
    for is_by_day in (False, True)
    for slots in (8, 1)
)


@pytest.mark.timeout(2400)  # All examples take minutes of processor time, and tests beside them take most of it.
@pytest.mark.parametrize("draw", range(example_count(2)))
@all_of_them("example", range(example_count(len(SHAPES))))
def test_a_hub_is_never_worse_off_than_with_the_best_fixed_number(example: int, draw: int) -> None:
    """On the judged days, the smallest fixed number with at least the same hits has as many idle hours or more."""
    ours, idle_hours_of_fixed = replayed(example, draw)
    assert missed(ours) <= max(0.03 * ours.launches, 2), SHAPES[example]
    assert ours.idle_hours <= idle_hours_of_fixed(ours.hits) + 1e-6, SHAPES[example]


@pytest.mark.timeout(2400)
@all_of_them("launches_a_day", (30, 71, 288, 10)[: example_count(4)])
def test_one_launch_decides_which_fixed_number_has_as_many_hits(launches_a_day: int) -> None:
    """Where the rate never changes and the number does, it lies between two fixed numbers.

    If the lower one has as many hits, by the luck of a few days, the hub has more idle hours. It never has more than a fixed
    number with a hit more, and all drawings together have fewer than the fixed numbers with their hits.
    """
    together = fixed_together = 0.0
    for draw in range(example_count(10)):
        ours, idle_hours_of_fixed = replayed(SHAPES.index((launches_a_day, False, 1)), draw)
        fixed = idle_hours_of_fixed(ours.hits)
        if ours.idle_hours > fixed + 1e-6:
            assert ours.idle_hours <= idle_hours_of_fixed(ours.hits + min(missed(ours), 1)), draw
        together += ours.idle_hours
        fixed_together += fixed
    assert together <= fixed_together + 1e-6


def replayed(example: int, draw: int) -> tuple[ReplayResult, Callable[[int], float]]:
    """The forecast's result of a drawn hub, and the idle hours of the smallest fixed number with at least some hits.

    A fixed number learns nothing, so it runs from a day before the judged days.
    """
    launches_a_day, is_by_day, slots = SHAPES[example]
    rate = launches_a_day / MINUTES_A_DAY
    trace = launches(3, example + len(SHAPES) * draw, lambda minute: rate * (by_day(minute) if is_by_day else 1.0))
    base = hub(trace, slots, 2)
    ours = replay(base, ForecastDemand())
    late = replace(base, trace=base.trace.since(BEGIN + 2 * MINUTES_A_WEEK - MINUTES_A_DAY))
    guess = max(round(ours.idle_hours_a_day / 24), 1)
    return ours, lambda hits: smallest_buffer(late, hits / ours.launches, guess=guess)[1].idle_hours


def missed(result: ReplayResult) -> int:
    return result.launches - result.hits


class SharedNodes:
    """The forecast of a group that shares its nodes with others."""

    name = "forecast"

    def __call__(self, question: Question) -> Forecast:
        return ForecastDemand()(replace(question, situation=replace(question.situation, free_slots=None)))


def test_placeholders_of_free_slots_change_no_launch_and_no_node() -> None:
    """A group with nodes for itself has fewer idle placeholders, and creates hardly more of them."""
    trace = launches(1, 1, lambda minute: 0.7 if minute % MINUTES_A_DAY > 480 else 0.1)
    base = hub(Trace(BEGIN, trace.launches[: 3 * MINUTES_A_DAY]), 8, 0)
    base = replace(base, has_timeline=True)
    ours, shared = replay(base, ForecastDemand()), replay(base, SharedNodes())
    assert ours.idle_hours < 0.72 * shared.idle_hours
    for name in ("hits", "waits", "node_hours", "node_starts"):
        assert getattr(ours, name) == getattr(shared, name), name
    assert _created(ours) <= 1.15 * _created(shared)


def _created(result: ReplayResult) -> int:
    timeline, there, created = result.timeline, 0, 0
    assert timeline is not None
    for came, missed, target in zip(timeline.launches, timeline.missed, timeline.target, strict=True):
        there = max(there - (came - missed), 0)
        created += max(target - there, 0)
        there = target
    return created


@all_of_them("slots", (1, 8)[: example_count(20)])
def test_batches_at_random_find_placeholders(slots: int) -> None:
    said = Said()
    base = hub(batches(3, slots), slots, 2)
    result: ReplayResult = replay(base, said)
    assert result.hit_rate >= 0.97
    trace, lead, largest = base.trace.launches, LEAD // timedelta(minutes=1), 0
    for minute, answer in enumerate(said.answers):
        largest = max(largest, sum(trace[max(minute - lead + 1, 0) : minute + 1]))
        assert minute < MINUTES_A_WEEK or answer.placeholders <= 1.5 * largest, minute
    assert said.answers[-1].decided_by is Source.STEADY


NOON: Final = 30 * MINUTES_A_DAY + 720
TIMES: Final = frozenset((570, 690, 810, 930))


def learned(
    days: int, needs_of: Callable[[int], tuple[int, ...]], following: int = 0, times: frozenset[int] = TIMES
) -> SteadyNumber:
    """A number that has seen days with launches at some minutes of the day."""
    found = SteadyNumber()
    for day in range(days):
        for minute in range(day * MINUTES_A_DAY, (day + 1) * MINUTES_A_DAY):
            found.add(needs_of(day) if minute % MINUTES_A_DAY in times else (), 0, following, minute)
        found.renew(0.95, 0.01, 990.0)
    return found


def test_what_happens_at_few_times_is_no_habit() -> None:
    """Neither exams nor a class on each weekday keep their placeholders all day."""
    users = tuple(range(1, 201))
    weekdays = learned(14, lambda day: users if day % 7 < 5 else (1,), times=frozenset((690, 720)))
    assert weekdays.number(NOON, 10) in (None, 1)
    assert learned(14, lambda day: users).number(NOON, 10) == 198


def test_a_launch_now_and_then_is_not_worth_a_placeholder() -> None:
    assert learned(28, lambda day: (1,) if day == 3 else ()).number(NOON, 10) is None
    assert learned(28, lambda day: (1,)).number(NOON, 10) == 1


def test_hours_without_launches_follow_demand() -> None:
    found = learned(14, lambda day: (1, 2))
    numbers = {hour: found.number(30 * MINUTES_A_DAY + hour * 60, 10) for hour in range(24)}
    assert {hour for hour, number in numbers.items() if number == 2} == set(range(7, 18))


def test_following_demand_goes_on_where_it_is_cheaper() -> None:
    assert learned(14, lambda day: (1, 2, 3), following=3).number(NOON, 10) == 3
    assert learned(14, lambda day: (1, 2, 3), following=1).number(NOON, 10) == 3, "its hits are too few"
    found = SteadyNumber()
    for minute in range(14 * MINUTES_A_DAY):
        now = minute % MINUTES_A_DAY
        is_time = any(time - 5 <= now < time + 10 for time in TIMES)
        found.add((1, 2, 3) if now in TIMES else (), 0, 3 if is_time else 0, minute)
        if not (minute + 1) % MINUTES_A_DAY:
            found.renew(0.95, 0.01, 990.0)
    assert found.number(NOON, 10) is None, "its placeholders are there at the right time"


def test_launches_far_beyond_the_number_are_followed_for_a_lead_time() -> None:
    found = learned(14, lambda day: (1, 2, 3))
    found.add(range(1, 20), 0, 3, NOON)
    assert found.number(NOON + 10, 10) is None
    assert found.number(NOON + 11, 10) == 3


def test_the_number_in_use_stays_while_its_misses_may_be_chance() -> None:
    """A day with few launches more than allowed is chance, one with many is not."""

    def after(more: int) -> int | None:
        found = learned(14, lambda day: (1,) * 99 + (2,))
        for minute in range(14 * MINUTES_A_DAY, 15 * MINUTES_A_DAY):
            found.add((1,) * 99 + (2,) * more if minute % MINUTES_A_DAY in TIMES else (), 0, 3, minute)
        found.renew(0.95, 0.01, 990.0)
        return found.number(NOON, 10)

    assert [after(more) for more in (1, 2, 9)] == [1, 1, 2]


def test_following_demand_replaces_the_number_only_if_it_is_clearly_cheaper() -> None:
    """The number counts in eleven hours of the day, so 20 are as dear as 9.2 at all hours."""

    def after(following: int) -> int | None:
        found = learned(14, lambda day: (20,), following=20)
        for minute in range(14 * MINUTES_A_DAY, 120 * MINUTES_A_DAY):
            now = minute % MINUTES_A_DAY
            found.add((20,) if now in TIMES else (), 0, 20 if now in TIMES else following, minute)
            if not (minute + 1) % MINUTES_A_DAY:
                found.renew(0.95, 0.01, 990.0)
        return found.number(NOON, 10)

    assert [after(following) for following in (10, 9, 8)] == [20, 20, None]
