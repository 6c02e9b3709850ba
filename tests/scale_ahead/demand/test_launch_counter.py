"""A launch is counted once, in the minute in which it becomes known."""

from __future__ import annotations

from dra_spawner.scale_ahead.demand.launch_counter import LaunchCounter


def test_a_launch_that_is_reported_again_counts_once() -> None:
    counter = LaunchCounter(100)
    for _ in range(3):
        counter.add("a", "gpu", 100)
    counter.add("b", "gpu", 100, bound=100, is_warm=True)
    counter.add("b", "gpu", 100, bound=100, is_warm=True, ended=101)
    counter.add("c", "cpu", 100, bound=101)
    first, second = counter.take(), counter.take()
    assert first.arrivals == {"gpu": 2, "cpu": 1}
    assert (first.hits, first.misses, first.departures) == ({"gpu": 1}, {}, {})
    assert (second.arrivals, second.misses, second.departures) == ({}, {"cpu": 1}, {"gpu": 1})
    assert counter.next_minute == 102


def test_a_launch_reported_late_counts_in_the_next_minute() -> None:
    counter = LaunchCounter(100)
    counter.take()
    counter.add("a", "gpu", 100)
    assert counter.take().arrivals == {"gpu": 1}


def test_launches_before_the_begin_or_an_hour_ago_do_not_count() -> None:
    counter = LaunchCounter(100)
    counter.add("before", "gpu", 99)
    counter.add("ends", "gpu", 50, ended=100)
    assert counter.take().arrivals == {}
    for _ in range(70):
        counter.take()
    counter.add("too late", "gpu", 101)
    counter.add("late", "gpu", 130)
    assert counter.take().arrivals == {"gpu": 1}


def test_the_end_of_a_server_that_was_there_before_counts() -> None:
    counter = LaunchCounter(100)
    counter.add("ends", "gpu", 50, ended=100)
    assert counter.take().departures == {"gpu": 1}


def test_a_forgotten_launch_is_too_late_to_count_again() -> None:
    counter = LaunchCounter(0)
    counter.add("a", "gpu", 0)
    assert counter.take().arrivals == {"gpu": 1}
    for minute in range(1, 300):
        counter.add("a", "gpu", 0)
        assert counter.take().arrivals == {}, minute
