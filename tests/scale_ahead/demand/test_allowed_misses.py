"""The share of misses to calculate with follows hits and misses as they are counted."""

from __future__ import annotations

import json

import pytest

from dra_spawner.scale_ahead.demand.allowed_misses import AllowedMisses


def after_days(days: int, hits: int, misses: int) -> AllowedMisses:
    """A share that has seen equal days."""
    found = AllowedMisses(0.99)
    for _ in range(days):
        found.add(hits, misses)
        found.renew()
    return found


@pytest.mark.parametrize(
    ("hits", "misses", "least", "most"),
    [
        pytest.param(0, 0, 0.01, 0.01, id="nothing is known"),
        pytest.param(1000, 0, 0.09, 0.1, id="everything is a hit"),
        pytest.param(993, 7, 0.01, 0.011, id="as wanted"),
        pytest.param(900, 100, 0.01, 0.01, id="too many misses"),
        pytest.param(3, 0, 0.01, 0.02, id="few launches say little"),
    ],
)
def test_the_share_grows_where_there_are_fewer_misses_than_wanted(
    hits: int, misses: int, least: float, most: float
) -> None:
    assert least - 1e-9 <= after_days(60, hits, misses).share <= most + 1e-9


def test_one_bad_day_undoes_some_good_ones_and_not_all() -> None:
    good = after_days(15, 1000, 0)
    before = good.share
    good.add(700, 300)
    good.renew()
    assert 0.01 < good.share < 0.5 * before


def test_a_stored_share_goes_on() -> None:
    stored = after_days(5, 1000, 2)
    stored.add(5, 1)
    restored = AllowedMisses(0.99)
    restored.restore(json.loads(json.dumps(stored.state())))
    stored.renew()
    restored.renew()
    assert restored.share == stored.share > 0.01
