"""Past weeks: usual launches, recurring classes, local time, holidays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from dra_spawner.scale_ahead.demand.estimators.seasonal import recurring_estimate, seasonal_estimate
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_WEEK, minute_of
from dra_spawner.scale_ahead.demand.wall_clock import WallClock

INFINITE = float("inf")
WEEK = MINUTES_A_WEEK
NOW = 4 * WEEK
BACK = (WEEK, 2 * WEEK, 3 * WEEK, 4 * WEEK)


def history(launches: Mapping[int, int], end: int = NOW) -> MinuteCounts:
    """Launches by minute, from a while before the fourth week back."""
    counts = MinuteCounts(-600)
    for minute in range(-600, end):
        counts.record(minute, launches.get(minute, 0))
    return counts


def classes(weeks: Iterable[int], users: int = 100, minutes: int = 5, at: int = 0) -> dict[int, int]:
    """A number of users within some minutes, a number of weeks ago."""
    return {NOW - week * WEEK + at + minute: users // minutes for week in weeks for minute in range(minutes)}


def steady(rate: int) -> dict[int, int]:
    return dict.fromkeys(range(-600, NOW), rate)


def test_a_steady_rate_is_expected_again() -> None:
    estimate = seasonal_estimate(history(steady(2)), NOW, BACK, 8, 15, 1.0)
    assert (estimate.expected, estimate.launches) == pytest.approx((16.0, 16.0))


def test_the_level_scales_the_expectation() -> None:
    estimate = seasonal_estimate(history(steady(2)), NOW, BACK, 8, 15, 0.5)
    assert estimate.expected == pytest.approx(8.0)


def test_only_known_weeks_count() -> None:
    counts = MinuteCounts(NOW - 2 * WEEK - 60)
    for minute in range(NOW - 2 * WEEK - 60, NOW):
        counts.record(minute, 3)
    assert seasonal_estimate(counts, NOW, BACK, 8, 15, 1.0).expected == pytest.approx(24.0)


def test_without_history_nothing_is_expected() -> None:
    assert seasonal_estimate(MinuteCounts(NOW), NOW, BACK, 8, 15, 1.0).expected == 0.0
    assert recurring_estimate(MinuteCounts(NOW), NOW, BACK, 8, 15, 0.0, INFINITE).assured == 0


def assured(launches: Mapping[int, int], margin: float = 0.0, starts: float = INFINITE) -> int:
    return recurring_estimate(history(launches), NOW, BACK, 8, 15, margin, starts).assured


def test_a_class_of_at_least_three_weeks_is_expected_again() -> None:
    """Two crowds in four weeks are a coincidence; a week without the class, such as the last one, changes nothing."""
    expected = {(): 0, (1,): 0, (1, 2): 0, (1, 4): 0, (1, 2, 3): 100, (1, 2, 4): 100, (2, 3, 4): 100}
    assert {weeks: assured(classes(weeks)) for weeks in expected} == expected


def test_a_coincidence_beside_a_class_does_not_make_it_larger() -> None:
    """A crowd of two weeks lies beside a smaller class of all weeks."""
    assert assured(classes((3, 4)) | classes((1, 2), users=300)) == 100


def test_an_unusual_crowd_changes_nothing() -> None:
    launches = classes((2, 3, 4)) | classes((1,), users=500)
    assert assured(launches) == 100


def test_random_variation_of_usual_launches_is_no_class() -> None:
    launches = steady(2) | classes((1, 2, 3), users=25)
    assert assured(launches) == 0


def test_a_class_may_grow() -> None:
    assert assured(classes((1, 2, 3)), margin=0.1) == 110


@pytest.mark.parametrize("away", [-14, 0, 14])
def test_a_class_may_be_early_or_late(away: int) -> None:
    launches = classes((1, 3)) | classes((2,), at=away)
    assert assured(launches) == 100


def test_nodes_that_start_one_after_the_other_are_ordered_earlier() -> None:
    launches = classes((1, 2, 3), at=30)
    assert assured(launches) == 0
    assert assured(launches, starts=5.0) == 100


BERLIN = ZoneInfo("Europe/Berlin")


def test_a_class_keeps_its_local_time_when_clocks_change() -> None:
    now = minute_of(datetime(2026, 10, 26, 10, tzinfo=BERLIN))  # the day after clocks went back
    last_week = minute_of(datetime(2026, 10, 19, 10, tzinfo=BERLIN))
    assert now - last_week == WEEK + 60
    assert WallClock(BERLIN, frozenset(), 2).minutes_back(now) == (WEEK + 60, 2 * WEEK + 60)
    assert WallClock(UTC, frozenset(), 2).minutes_back(now) == (WEEK, 2 * WEEK)


def test_holidays_are_no_examples() -> None:
    now = minute_of(datetime(2026, 1, 8, 10, tzinfo=BERLIN))
    clock = WallClock(BERLIN, frozenset({date(2026, 1, 1)}), 3)
    assert clock.minutes_back(now) == (2 * WEEK, 3 * WEEK, 4 * WEEK)
    after_a_break = WallClock(BERLIN, frozenset(date(2025, 12, 11) + timedelta(weeks=each) for each in range(4)), 3)
    assert after_a_break.minutes_back(now) == (5 * WEEK, 6 * WEEK, 7 * WEEK)
    assert WallClock(BERLIN, frozenset({date(2026, 1, 7)}), 3).yesterday(now) is None


def test_yesterday_has_the_same_local_time() -> None:
    clock = WallClock(BERLIN, frozenset(), 3)
    assert clock.yesterday(minute_of(datetime(2026, 1, 8, 10, tzinfo=BERLIN))) == 1440
    assert clock.yesterday(minute_of(datetime(2026, 10, 25, 10, tzinfo=BERLIN))) == 1440 + 60


def test_a_holiday_is_a_local_day() -> None:
    clock = WallClock(BERLIN, frozenset({date(2026, 1, 1)}), 3)
    midnight = datetime(2026, 1, 1, tzinfo=BERLIN)
    assert clock.is_holiday(minute_of(midnight))
    assert not clock.is_holiday(minute_of(midnight - timedelta(minutes=1)))
    assert not clock.is_holiday(minute_of(midnight + timedelta(days=1)))
