"""Budgets of the search: counted steps, and the result of exceeding a budget."""

from __future__ import annotations

import itertools

import pytest

from dra_spawner.dra.allocation.allocator import Allocator, DoesNotFit
from dra_spawner.dra.budget import SearchBudget, SearchStopped
from tests.dra.builders import NODE, device_json, make_allocator, make_claim, make_slice, request


def searching(count: int) -> tuple[Allocator, list]:
    """Two requests for half of these devices and one more."""
    devices = make_slice(devices=[device_json(f"d{number:02}") for number in range(count)])
    return make_allocator([devices]), [make_claim(request("a", count=count // 2), request("b", count=count // 2 + 1))]


def test_no_verdict_when_the_budget_is_exceeded() -> None:
    allocator, claims = searching(24)
    budget = SearchBudget(1000)
    with pytest.raises(SearchStopped, match=r"stopped after 1,00\d steps: the limit is 1,000") as caught:
        allocator.allocate(NODE, claims, budget=budget)
    assert caught.value.steps == budget.spent
    assert 1000 < budget.spent < 1010


def test_the_verdict_is_the_same_within_the_budget() -> None:
    allocator, claims = searching(8)
    budget = SearchBudget(100_000)
    found = allocator.allocate(NODE, claims, budget=budget)
    unlimited = allocator.allocate(NODE, claims)
    assert isinstance(found, DoesNotFit)
    assert found == unlimited
    # A step of the search is one of the budget, where there are few devices and no constraints; explaining costs, too.
    assert found.steps <= budget.spent <= 2.5 * found.steps


def test_several_searches_spend_one_budget() -> None:
    allocator, claims = searching(8)
    allocator.allocate(NODE, claims, budget=(first := SearchBudget()), explain=False)
    both = SearchBudget(round(first.spent * 1.5))
    allocator.allocate(NODE, claims, budget=both, explain=False)
    with pytest.raises(SearchStopped):
        allocator.allocate(NODE, claims, budget=both, explain=False)


def test_looking_at_many_devices_costs_as_much_as_steps() -> None:
    """For each of 200 devices, all the others are looked at in vain: few steps that take long."""
    devices = [device_json(f"d{number:04}") for number in range(200)]
    slices = [make_slice(name, devices=devices[first : first + 100], count=2) for name, first in (("s", 0), ("t", 100))]
    claim = make_claim(request("a"), request("b", selectors=[{"cel": {"expression": "device.driver == 'nobody'"}}]))
    budget = SearchBudget()
    found = make_allocator(slices).allocate(NODE, [claim], budget=budget, explain=False)
    assert isinstance(found, DoesNotFit)
    assert found.steps < 500
    assert budget.spent > 200 * 200 / 16


def test_a_search_ends_when_its_time_is_over() -> None:
    allocator, claims = searching(24)
    looks = itertools.count()
    with pytest.raises(SearchStopped, match="the time for it is over"):
        allocator.allocate(NODE, claims, budget=SearchBudget(is_over=lambda: next(looks) >= 10))
    assert next(looks) == 11
