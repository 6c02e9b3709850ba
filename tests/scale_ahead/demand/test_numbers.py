"""Floor, pending spawns, lead times, whole nodes, the running maximum, costs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.scale_ahead.demand.estimators.floor import floor_estimate
from dra_spawner.scale_ahead.demand.estimators.pending_spawns import pending_estimate
from dra_spawner.scale_ahead.demand.estimators.quantile import hit_rate_of_costs
from dra_spawner.scale_ahead.demand.estimators.whole_nodes import WholeNodes, fewest_for_nodes, whole_nodes
from dra_spawner.scale_ahead.demand.hold import RunningMaximum
from dra_spawner.scale_ahead.demand.lead_times import SeenLeadTimes, lead_time_quantile
from tests.examples import example_count

EXAMPLES = 100


def test_the_floor_is_assured() -> None:
    assert floor_estimate(3).assured == 3
    with pytest.raises(ValueError, match="the floor is -1"):
        floor_estimate(-1)


def test_pending_spawns_and_reservations_add_up() -> None:
    assert pending_estimate(4, 3).assured == 7
    with pytest.raises(ValueError, match="-2 reservations"):
        pending_estimate(0, -2)


@settings(max_examples=example_count(EXAMPLES))
@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.integers(1, 15))
def test_the_running_maximum_is_the_maximum_of_the_last_minutes(figures: list[int], minutes: int) -> None:
    maximum = RunningMaximum()
    for now, figure in enumerate(figures):
        maximum.add(now, figure)
        assert maximum.held(now, minutes) == max(figures[max(now - minutes + 1, 0) : now + 1])


def test_the_running_maximum_rises_at_once_and_falls_after_the_hold() -> None:
    maximum = RunningMaximum()
    maximum.add(0, 5)
    maximum.add(1, 9)
    assert maximum.held(1, 10) == 9
    maximum.add(2, 1)
    assert (maximum.held(10, 10), maximum.held(11, 10), maximum.held(40, 10)) == (9, 1, 0)


def test_the_lead_time_is_a_quantile() -> None:
    """Nine of ten nodes keep it."""
    assert lead_time_quantile([]) is None
    for seen, quantile in (([5], 5), ([*range(1, 11)], 9), ([1] * 19 + [60], 1), ([1] * 17 + [60] * 3, 60)):
        assert lead_time_quantile(timedelta(minutes=each) for each in seen) == timedelta(minutes=quantile), seen


@settings(max_examples=example_count(EXAMPLES))
@given(st.lists(st.integers(1, 9), max_size=120))
def test_lead_times_that_were_seen_replace_the_configured_one(minutes: list[int]) -> None:
    seen = SeenLeadTimes(timedelta(minutes=30))
    assert seen.quantile == timedelta(minutes=30)
    for count, each in enumerate(minutes, 1):
        seen.add(timedelta(minutes=each))
        last = [timedelta(minutes=found) for found in minutes[max(count - 50, 0) : count]]
        assert seen.quantile == lead_time_quantile(last)


def test_whole_nodes() -> None:
    """Nothing; they fit the node that is there; exactly; one opens a node."""
    rows = {(0, 0): WholeNodes(0, 0), (3, 5): WholeNodes(1, 2), (5, 5): WholeNodes(1, 0), (6, 5): WholeNodes(2, 9)}
    assert {each: whole_nodes(*each, 10) for each in rows} == rows


def test_the_fewest_placeholders_that_need_the_same_nodes() -> None:
    """Servers leave slots of their nodes free: fewer than a node has if they are packed, and more if some have ended."""
    for free in range(35):
        for number in range(45):
            fewest = fewest_for_nodes(number, free, 10)
            assert _further_nodes(fewest, free) == _further_nodes(number, free)
            assert (number > 0) <= fewest <= number
            assert fewest <= 1 or _further_nodes(fewest - 1, free) < _further_nodes(number, free)


def _further_nodes(placeholders: int, free: int) -> int:
    return max(-(-(placeholders - free) // 10), 0)


def test_a_node_has_slots() -> None:
    with pytest.raises(ValueError, match="a node has 0 slots"):
        whole_nodes(1, 1, 0)


def test_costs_make_a_hit_rate() -> None:
    # A wait costs 9.9, a placeholder that is idle for the six minutes of a lead time 0.1.
    assert hit_rate_of_costs(9.9, 1.0, timedelta(minutes=6)) == pytest.approx(0.99)


def test_dearer_waits_and_cheaper_nodes_mean_more_hits() -> None:
    lead = timedelta(minutes=8)
    assert hit_rate_of_costs(2, 1, lead) > hit_rate_of_costs(1, 1, lead) > hit_rate_of_costs(1, 2, lead)


@pytest.mark.parametrize("costs", [(0, 1, 8), (1, 0, 8), (1, 1, 0), (float("nan"), 1, 8), (1, float("inf"), 8)])
def test_costs_are_more_than_nothing(costs: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        hit_rate_of_costs(costs[0], costs[1], timedelta(minutes=costs[2]))
