"""A wall clock that is set: code that depends on the time does not notice at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dra_spawner.placeholders.controller.round.steady_clock import SteadyClock

BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clocks:
    """A wall clock and a steady clock, both set by the test."""

    def __init__(self) -> None:
        self.wall = BEGIN.timestamp()
        self.steady = 1000.0
        self.clock = SteadyClock(wall=lambda: self.wall, steady=lambda: self.steady)

    def pass_time(self, seconds: float) -> datetime:
        self.wall += seconds
        self.steady += seconds
        return self.clock()


def test_the_clock_follows_the_wall_clock() -> None:
    clocks = Clocks()
    assert clocks.clock() == BEGIN
    assert clocks.pass_time(90) == BEGIN + timedelta(seconds=90)


@pytest.mark.parametrize("jump", [3600, -3600, 5, -5], ids=lambda jump: f"{jump}s")
def test_a_lasting_jump_is_adopted(jump: float) -> None:
    clocks = Clocks()
    clocks.pass_time(10)
    clocks.wall += jump
    for _ in range(11):
        before = clocks.clock()
        assert clocks.pass_time(10) - before == timedelta(seconds=10)
    assert clocks.pass_time(10) == datetime.fromtimestamp(clocks.wall, UTC)


def test_a_jump_that_is_undone_is_ignored() -> None:
    clocks = Clocks()
    clocks.wall -= 3600
    clocks.pass_time(100)
    clocks.wall += 3600
    assert clocks.pass_time(100) == BEGIN + timedelta(seconds=200)
    clocks.wall -= 3600
    assert clocks.pass_time(100) == BEGIN + timedelta(seconds=300), "the second jump begins anew"


def test_small_steps_are_followed() -> None:
    clocks = Clocks()
    for _ in range(100):
        clocks.wall += 0.5
        clocks.pass_time(1)
    assert clocks.clock() == BEGIN + timedelta(seconds=150)
