"""The cost of searches in a decision, counted in steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.planner.cluster.search_ledger import (
    FIRST_REST,
    LONGEST_REST,
    MAX_OF_A_PART,
    MAX_OF_A_SEARCH,
    MAX_OF_LONG_ONES,
    SearchLedger,
    SearchPostponed,
)
from dra_spawner.simulator.model.pods import Pod

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def ledger() -> SearchLedger:
    found = SearchLedger()
    found.begin(NOW)
    return found


def search(searches: SearchLedger, shape: int, steps: int) -> None:
    with searches.search(shape) as budget:
        for _ in range(steps):
            budget.spend(1)


def pod(name: str, namespace: str = "hub") -> Pod:
    return Pod(name, namespace, f"uid-{name}")


def test_one_search_is_stopped_and_its_claims_are_set_aside() -> None:
    searches = ledger()
    with pytest.raises(SearchStopped, match="tried again in 30 s") as caught:
        search(searches, 1, MAX_OF_A_SEARCH + 1)
    assert not isinstance(caught.value, SearchPostponed)
    searches.begin(NOW + FIRST_REST / 2)
    with pytest.raises(SearchStopped, match="tried again in 15 s"):
        search(searches, 1, 1)
    search(searches, 2, 100)
    searches.begin(NOW + FIRST_REST)
    search(searches, 1, 100)


def test_claims_are_set_aside_for_twice_as_long_each_time() -> None:
    searches, now = SearchLedger(), NOW
    rests = []
    for _ in range(9):
        searches.begin(now)
        with pytest.raises(SearchStopped) as caught:
            search(searches, 1, MAX_OF_A_SEARCH + 1)
        rests.append(int(caught.value.reason.split()[-2]))
        now += timedelta(seconds=rests[-1])
    assert rests == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_a_clock_that_is_set_back_blocks_no_search() -> None:
    searches = ledger()
    with pytest.raises(SearchStopped):
        search(searches, 1, MAX_OF_A_SEARCH + 1)
    searches.begin(NOW - 2 * LONGEST_REST)
    search(searches, 1, 100)


def test_searches_of_a_moment_have_a_budget_together() -> None:
    searches = ledger()
    search(searches, 1, MAX_OF_A_SEARCH - 1000)
    too_many = MAX_OF_A_PART - MAX_OF_A_SEARCH + 2000
    with pytest.raises(SearchPostponed):
        search(searches, 2, too_many)
    with pytest.raises(SearchPostponed):
        search(searches, 3, 20)
    # A search for a device or two always has time.
    search(searches, 4, 10)
    # The second search was not at fault.
    searches.begin(NOW)
    search(searches, 2, too_many)


def test_short_searches_cost_nothing() -> None:
    """A big cluster may have thousands of different nodes."""
    searches = ledger()
    for _ in range(MAX_OF_A_PART):
        search(searches, 1, 10)
    assert searches.spent == 0


def test_many_long_searches_for_the_same_claims() -> None:
    searches = ledger()
    for number in range(MAX_OF_LONG_ONES // 1000 + 1):
        searches.begin(NOW + timedelta(seconds=number))
        search(searches, 1, 1000)
    with pytest.raises(SearchStopped, match="tried again"):
        search(searches, 1, 1)


def test_a_few_long_searches_now_and_then_are_not_stopped() -> None:
    searches = ledger()
    for number in range(100):
        searches.begin(NOW + timedelta(seconds=10 * number))
        search(searches, 1, 1000)


def test_expensive_pods_come_last() -> None:
    searches = ledger()
    dear, cheap, new = pod("dear", "mallory"), pod("cheap"), pod("new", "mallory")
    pods = [dear, new, cheap]
    assert searches.in_turn(pods) == pods
    with searches.charged_to(dear):
        search(searches, 1, 4000)
    with searches.charged_to(cheap):
        search(searches, 2, 500)
    # Other pods of the same namespace come last, too.
    assert searches.in_turn(pods) == [cheap, new, dear]
    for number in range(1, 5):
        searches.begin(NOW + number * timedelta(seconds=11))
    assert searches.in_turn(pods) == pods


def test_time_ends_a_search_where_steps_take_long() -> None:
    times = iter([0.0, *[0.5] * 3, *[2.0] * 10])
    searches = SearchLedger(lambda: next(times))
    searches.begin(NOW)
    with pytest.raises(SearchStopped) as caught:
        search(searches, 1, MAX_OF_A_SEARCH)
    assert caught.value.steps < 500
