"""The recent rate."""

from __future__ import annotations

import pytest

from dra_spawner.scale_ahead.demand.estimators.reactive import DecayingMean, reactive_estimate

DECAY = 0.5 ** (1 / 10)


def mean_of(*figures: float) -> DecayingMean:
    mean = DecayingMean()
    for figure in figures:
        mean.add(figure, DECAY)
    return mean


def test_a_steady_rate_is_right_from_the_first_minute_on() -> None:
    assert mean_of(3.0).mean == pytest.approx(3.0)
    assert mean_of(*[3.0] * 50).mean == pytest.approx(3.0)


def test_after_a_half_life_the_past_counts_half() -> None:
    assert mean_of(*[4.0] * 1000, *[0.0] * 10).mean == pytest.approx(2.0, rel=0.01)


def test_skipping_is_adding_nothing() -> None:
    added, skipped = mean_of(5.0, 7.0, *[0.0] * 25), mean_of(5.0, 7.0)
    skipped.skip(25, DECAY)
    assert (skipped.total, skipped.weight) == pytest.approx((added.total, added.weight))


def test_without_records_nothing_is_expected() -> None:
    assert DecayingMean().mean == 0.0


def test_departures_are_capacity_but_not_certainty() -> None:
    estimate = reactive_estimate(mean_of(3.0), mean_of(2.0), 8)
    assert (estimate.expected, estimate.launches) == pytest.approx((8.0, 24.0))


def test_more_departures_than_launches_are_no_negative_demand() -> None:
    assert reactive_estimate(mean_of(1.0), mean_of(2.0), 8).expected == 0.0
