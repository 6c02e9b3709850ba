"""How often one person, and all together, may ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dra_spawner.service.call_rates import CallRates

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def test_one_person_and_all_together() -> None:
    rates = CallRates(3, timedelta(minutes=1), 5, timedelta(minutes=1))
    assert [rates.take("ada", NOW) for _ in range(5)] == [True] * 3 + [False] * 2
    assert [rates.take("ben", NOW) for _ in range(3)] == [True] * 2 + [False], "all together"
    assert rates.take("ada", NOW + timedelta(minutes=1))
    assert not rates.take("ada", NOW + timedelta(minutes=1))
    assert [rates.take("cleo", NOW - timedelta(days=1)) for _ in range(1)] == [False], "a clock that jumps back"


def test_people_who_are_many() -> None:
    rates = CallRates(1, timedelta(days=1), 10**6, timedelta(seconds=1))
    assert all(rates.take(f"user{number}", NOW) for number in range(6_000))
    assert not rates.take("user5999", NOW)
