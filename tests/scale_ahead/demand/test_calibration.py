"""The safety factor that a hit rate needs."""

from __future__ import annotations

import random
from statistics import NormalDist

import pytest

from dra_spawner.scale_ahead.demand.calibration import Calibration, placeholders_for, spread


def poisson(draw: random.Random, mean: float) -> int:
    """Arrivals within a time, one after the other."""
    count, at = 0, draw.expovariate(mean)
    while at < 1.0:
        count += 1
        at += draw.expovariate(mean)
    return count


def test_without_experience_the_factor_is_that_of_the_normal_distribution() -> None:
    assert Calibration(0.99).factor == pytest.approx(NormalDist().inv_cdf(0.99))


@pytest.mark.parametrize("hit_rate", [0.9, 0.97, 0.99])
@pytest.mark.parametrize("burst", [1, 4])
def test_the_hit_rate_is_met_whatever_the_distribution(hit_rate: float, burst: int) -> None:
    """Launches come in groups of `burst`. Each time is independent, with its last launches at its end."""
    draw = random.Random(7)
    calibration = Calibration(hit_rate)
    launches = hits = 0
    for day in range(60):
        for _ in range(400):
            demand = burst * poisson(draw, 20 / burst)
            if day >= 30:
                launches += demand
                hits += min(demand, placeholders_for(20.0, spread(20.0, 0.5), calibration.factor))
            calibration.add(range(1, demand + 1), 20.0, spread(20.0, 0.5), 0)
        calibration.renew(0.9, 1 - hit_rate)
    # The calibration is a little cautious, and numbers are whole.
    missing = 1 - hit_rate
    assert hit_rate - 0.1 * missing <= hits / launches <= hit_rate + 0.4 * missing


def test_assured_launches_need_no_factor() -> None:
    with_entry, without = Calibration(0.99), Calibration(0.99)
    for calibration, assured in ((with_entry, 300), (without, 0)):
        for _ in range(20):
            calibration.add(range(1, 26), 5.0, 3.0, assured)
        calibration.renew(1.0, 0.01)
    assert with_entry.factor <= NormalDist().inv_cdf(0.99)
    assert without.factor > 4


def test_surprises_do_not_flood_a_hub() -> None:
    calibration = Calibration(0.99)
    for _ in range(1000):
        calibration.add(range(1, 11), 10.0, 5.0, 0)
        calibration.add(range(491, 501), 10.0, 5.0, 0)
    calibration.renew(1.0, 0.01)
    assert calibration.factor < 3


def test_the_past_fades() -> None:
    calibration = Calibration(0.9)
    calibration.add(range(1, 101), 10.0, 5.0, 0)
    calibration.renew(1.0, 0.1)
    high = calibration.factor
    for _ in range(40):
        calibration.add(range(1, 6), 10.0, 5.0, 0)
        calibration.renew(0.8, 0.1)
    assert calibration.factor == 0.0 < high


def test_launches_of_one_minute_are_counted_one_by_one() -> None:
    """Of ten launches on top of ninety, the first five are within the 95 placeholders."""
    calibration = Calibration(0.5)
    for _ in range(1000):
        calibration.add(range(91, 101), 90.0, 10.0, 0)
    calibration.renew(1.0, 0.5)
    # Half of the launches are to be hits: a demand of 95, or some tenths more for caution.
    assert placeholders_for(90.0, 10.0, calibration.factor) in (95, 96)


def test_launches_where_none_was_expected_ask_for_no_number() -> None:
    calibration = Calibration(0.99)
    calibration.add([1], 0.0, 0.0, 0)
    assert placeholders_for(0.0, 0.0, calibration.factor) == 0


def test_spread_is_chance_and_bursts() -> None:
    assert spread(100.0, 0.0) == pytest.approx(10.0)
    assert spread(100.0, 0.5) == pytest.approx((100 + 2500) ** 0.5)
