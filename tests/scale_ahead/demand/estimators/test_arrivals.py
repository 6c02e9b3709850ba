"""Counts by the minute, compared with plain sums."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_spawner.scale_ahead.demand.estimators.arrivals import MinuteCounts
from tests.examples import example_count

EXAMPLES = 100
MINUTES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60)


def counted(minutes: list[tuple[int, int]], begin: int = 100, retained: int = 1000) -> MinuteCounts:
    counts = MinuteCounts(begin, retained)
    for minute, (arrivals, departures) in enumerate(minutes, begin):
        counts.record(minute, arrivals, departures)
    return counts


@settings(max_examples=example_count(EXAMPLES))
@given(MINUTES, st.integers(90, 170), st.integers(0, 70))
def test_sums_are_those_of_the_known_minutes(minutes: list[tuple[int, int]], begin: int, length: int) -> None:
    counts = counted(minutes)
    span = [each for minute, each in enumerate(minutes, 100) if begin <= minute < begin + length]
    assert counts.arrivals(begin, begin + length) == sum(arrivals for arrivals, _ in span)
    assert counts.growth(begin, begin + length) == sum(arrivals - left for arrivals, left in span)


@settings(max_examples=example_count(EXAMPLES))
@given(MINUTES, st.integers(0, 20))
def test_the_largest_growth_is_over_any_span_that_ends_now(minutes: list[tuple[int, int]], most: int) -> None:
    counts = counted(minutes)
    spans = [minutes[len(minutes) - length :] for length in range(min(most, len(minutes)) + 1)]
    assert counts.largest_growth(counts.end, most) == max(sum(came - left for came, left in span) for span in spans)


@settings(max_examples=example_count(EXAMPLES))
@given(MINUTES, st.integers(0, 40), st.integers(0, 30), st.integers(1, 10))
def test_the_peak_is_that_of_spans_of_one_length(
    minutes: list[tuple[int, int]], first: int, more: int, length: int
) -> None:
    counts = counted(minutes)
    starts = range(first, min(first + more, len(minutes) - length) + 1)
    grown = [sum(came - left for came, left in minutes[start : start + length]) for start in starts]
    assert counts.peak_growth(100 + first, 100 + first + more, length) == max([0, *grown])


def test_minutes_left_out_count_zero() -> None:
    counts = MinuteCounts(10)
    counts.record(10, 3)
    counts.record(20, 4)
    assert (counts.arrivals(10, 21), counts.arrivals(11, 20), counts.end) == (7, 0, 21)


def test_memory_is_bounded_and_the_newest_stay() -> None:
    counts = MinuteCounts(0, retained=100)
    for minute in range(1000):
        counts.record(minute, 1)
        assert counts.end - counts.begin <= 126
    assert counts.arrivals(900, 1000) == 100
    assert counts.knows(900)
    assert not counts.knows(800)


def test_a_pause_longer_than_the_memory_forgets_all() -> None:
    counts = MinuteCounts(0, retained=100)
    counts.record(0, 5)
    counts.record(5000, 2)
    assert (counts.begin, counts.end, counts.arrivals(0, 6000)) == (5000, 5001, 2)


@pytest.mark.parametrize(
    ("minute", "arrivals", "departures", "problem"),
    [
        pytest.param(9, 1, 0, "minute 9 comes after minute 9", id="twice"),
        pytest.param(10, -1, 0, "-1 arrivals", id="negative arrivals"),
        pytest.param(10, 0, -2, "-2 departures", id="negative departures"),
    ],
)
def test_invalid_counts_are_refused_and_change_nothing(
    minute: int, arrivals: int, departures: int, problem: str
) -> None:
    counts = MinuteCounts(9)
    counts.record(9, 4)
    with pytest.raises(ValueError, match=problem):
        counts.record(minute, arrivals, departures)
    assert (counts.end, counts.arrivals(0, 100)) == (10, 4)
