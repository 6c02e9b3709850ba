"""The curve of fixed numbers."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.demand.policies import Buffer
from dra_spawner.scale_ahead.rehearsal.nodes.node_kinds import NodeKind
from dra_spawner.scale_ahead.replay.frontier import fixed_frontier, idle_at_hit_rate
from dra_spawner.scale_ahead.replay.replay import Scenario, replay
from dra_spawner.scale_ahead.replay.traces import Trace

BEGIN = minute_of(datetime(2026, 11, 2, tzinfo=UTC))


def scenario(rate: float, minutes: int = 1440) -> Scenario:
    draw = random.Random(7)
    launches = array("L", (sum(draw.random() < rate / 40 for _ in range(40)) for _ in range(minutes)))
    return Scenario(Trace(BEGIN, launches), NodeKind("nodes", 1, (timedelta(minutes=8),)), judged_from=BEGIN + 60)


def test_the_curve_has_the_figures_of_replays_and_rises() -> None:
    base = scenario(2.0)
    asked: dict[int, float] = {}
    found = fixed_frontier(base, [0.9, 0.99], progress=asked.__setitem__)
    assert list(found) == sorted(found)
    assert found[0].hits == 0
    for number in list(found)[::4]:
        assert found[number] == replay(base, Buffer(number), name=f"fixed:{number}")
    rates = [each.hit_rate for each in found.values()]
    idle = [each.idle_hours for each in found.values()]
    assert rates == sorted(rates)
    assert idle == sorted(idle)
    assert asked.keys() >= found.keys()
    assert set(asked.values()) == {0.0}, "called at the begin of each of the trace's days, and it has one"


def test_the_curve_covers_the_policies_and_not_much_more() -> None:
    found = fixed_frontier(scenario(2.0), [0.97])
    last = max(found)
    assert found[last].hit_rate >= 0.995
    assert any(found[number].hit_rate < 0.995 for number in found if number > 0.8 * last)
    assert last < 60
    assert 8 <= len(found) <= 20


def test_a_number_that_was_replayed_before_is_a_point_of_the_curve() -> None:
    base = scenario(2.0)
    known = replay(base, Buffer(21), name="fixed:21")
    asked: list[int] = []
    found = fixed_frontier(base, [0.97], known={21: known}, progress=lambda number, done: asked.append(number))
    assert found[21] is known
    assert 21 not in asked


def test_the_curve_ends_where_more_placeholders_bring_nothing() -> None:
    base = scenario(2.0)
    limited = replace(base, kind=replace(base.kind, max_nodes=10))
    found = fixed_frontier(limited, [1.0])
    assert max(found) == 10
    assert found[max(found)].hit_rate < 0.99


def test_without_launches_the_curve_costs_nothing() -> None:
    found = fixed_frontier(scenario(0.0), [1.0])
    assert {each.hit_rate for each in found.values()} == {1.0}
    assert idle_at_hit_rate(found, 1.0) == 0.0


def test_a_hit_rate_between_two_numbers_is_a_mixture() -> None:
    found = fixed_frontier(scenario(2.0), [0.99])
    low, high = list(found)[4:6]
    between = (found[low].hit_rate + 3 * found[high].hit_rate) / 4
    idle = (found[low].idle_hours_a_day + 3 * found[high].idle_hours_a_day) / 4
    assert idle_at_hit_rate(found, between) == pytest.approx(idle)
    assert idle_at_hit_rate(found, found[high].hit_rate) == pytest.approx(found[high].idle_hours_a_day)
    assert idle_at_hit_rate({low: found[low]}, between) is None
