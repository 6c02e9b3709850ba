"""Rehearsals of random days, compared with what then happens."""

from __future__ import annotations

from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.scale_ahead.rehearsal.coming_day import happens_as_rehearsed


@all_of_them("seed", range(example_count(200)))
def test_days_in_virtual_time(seed: int) -> None:
    """Random clusters, calendars and modes: the verdict is right, and as many users wait as it says."""
    happens_as_rehearsed(seed)
