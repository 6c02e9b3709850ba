"""The bucket that bounds evictions fills at its rate, up to its burst, whatever the clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.placeholders.planner.targets.policy import Budget, Tokens

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
BUDGET = Budget(per_second=1 / 3600, burst=5)


def left(before: float, seconds: float) -> float:
    return Tokens(before, NOW).refilled(BUDGET, NOW + timedelta(seconds=seconds)).left


def test_it_fills_at_its_rate_and_to_its_burst_only() -> None:
    assert (left(0, 3600), left(0, 1800)) == (1, 0.5)
    assert (left(0, 5 * 3600), left(0, 50 * 3600), left(5, 60)) == (5, 5, 5)


def test_a_clock_that_jumps_back_adds_nothing() -> None:
    assert left(2, -3600) == 2


def test_less_than_a_token_is_none() -> None:
    assert Tokens(0.9, NOW).take() is None
    assert Tokens(1.5, NOW).take() == Tokens(0.5, NOW)
