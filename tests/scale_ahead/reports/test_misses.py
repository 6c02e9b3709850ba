"""Launches that had to wait, gathered into times."""

from __future__ import annotations

from datetime import timedelta

from dra_spawner.scale_ahead.demand.minutes import datetime_of
from dra_spawner.scale_ahead.reports.misses import LargestMisses, MissCause


def test_the_ten_largest_misses_are_kept_in_order() -> None:
    misses = LargestMisses(apart=3)
    for number in range(1, 21):
        misses.minute(100 * number, number, number, 0.0, 0)
        for minute in range(1, 4):
            misses.minute(100 * number + minute, 0, 0, 0.0, 0)
    misses.close()
    assert [each.misses for each in misses.largest()] == list(range(20, 10, -1))


def test_misses_close_to_one_another_are_one_time() -> None:
    misses = LargestMisses(apart=5)
    for minute, missed in ((10, 2), (11, 0), (12, 1), (13, 0), (14, 4)):
        misses.minute(minute, missed, missed + 1, 0.5, 7)
    misses.close()
    (found,) = misses.largest()
    assert (found.begins, found.ends, found.misses, found.launches, found.expected) == (10, 15, 7, 12, 2.5)
    assert found.reason.startswith("12 started within 5 min, 2 were expected, with 7 placeholders; 7 waited: too many")


def test_an_unknown_number_of_placeholders_is_not_shown() -> None:
    misses = LargestMisses(apart=5)
    misses.minute(10, 3, 3, 0.5)
    misses.close()
    (found,) = misses.largest()
    assert found.reason == "3 started within 1 min, none was expected; 3 waited: too many at once"


def test_no_entry_helps_against_a_limit() -> None:
    misses = LargestMisses(apart=5)
    misses.minute(10, 3, 3, 0.5, 2)
    misses.limits(is_at_limit=True, is_throttled=True)
    misses.close()
    assert [(each.cause, each.is_preventable) for each in misses.largest()] == [(MissCause.NODE_LIMIT, False)]


def test_the_entry_begins_when_the_rush_does() -> None:
    """The first users of a rush find placeholders; a count of the later ones alone would prepare too few."""
    misses = LargestMisses(apart=8)
    launches = [0, 0, 1, 0, 0, 0, 9, 10, 7, 7, 0]
    missed = [0, 0, 0, 0, 0, 0, 0, 0, 2, 7, 0]
    for minute, (came, late) in enumerate(zip(launches, missed, strict=True)):
        misses.minute(minute, late, came, 0.5, 10)
    misses.close()
    (found,) = misses.largest()
    assert (found.begins, found.ends, found.launches, found.misses) == (8, 10, 14, 9)
    assert (found.rush_begins, found.rush) == (6, 31.0)
    entry = found.calendar_entry("gpu")
    assert (entry.begins, entry.users, entry.ramp) == (datetime_of(6), 31, timedelta(minutes=4))


def test_a_rush_is_looked_for_within_a_lead_time() -> None:
    misses = LargestMisses(apart=3)
    for minute in range(10):
        misses.minute(minute, int(minute == 9), 2, 0.0)
    misses.close()
    (found,) = misses.largest()
    assert (found.rush_begins, found.rush) == (6, 8.0)
