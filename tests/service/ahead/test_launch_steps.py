"""Launches in equal steps, and the effect of the history's state on the answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.exc import OperationalError

from dra_spawner.history.records import TRIAL, Launch, WaitCause
from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.service.ahead.launch_steps import LaunchesUnavailable, LaunchSteps, launch_steps
from tests.history.records import START, after, launch


class Database:
    """A history that counts its readers."""

    def __init__(self, *launches: Launch, error: Exception | None = None) -> None:
        self.found, self.error, self.reads = launches, error, 0

    def launches(self, begin: object, end: object) -> tuple[Launch, ...]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return self.found


def test_steps() -> None:
    waited = launch("2", 300, choice="gpu", bound=after(420), cause=WaitCause.NODE)
    found = launch_steps(
        [
            launch("1", 10, choice="gpu", bound=after(11), cause=WaitCause.NONE),
            waited,
            launch("3", 310, choice="gpu"),
            launch("4", 320, choice="gpu", ended=after(330)),
            launch("5", 10, choice="gpu/memory=large", bound=after(12)),
            launch("6", 10, choice="gpu", bound=after(12), source=TRIAL),
        ],
        minute_of(START),
        5,
        after(330),
    )
    assert set(found) == {("gpu", 0), ("gpu", 1), ("gpu/memory=large", 0)}
    first, second = found["gpu", 0], found["gpu", 1]
    assert (first.launches, first.waited, first.waits) == (1, 0, [1.0])
    assert (second.launches, second.waited, second.waits) == (3, 1, [20.0, 120.0]), "one is pending, one was given up"
    assert (second.quantile(0.5), second.quantile(0.95)) == (120.0, 120.0)


async def test_launches_are_read_again_after_a_part_of_a_step() -> None:
    steps, database, begin = LaunchSteps(), Database(launch(choice="gpu")), minute_of(START)
    for seconds, reads in ((0, 1), (59, 1), (61, 2)):
        found = await steps.read(database, begin, 15, START + timedelta(seconds=seconds))  # type: ignore[arg-type]
        assert (found["gpu", 0].launches, database.reads) == (1, reads)


async def test_a_history_that_cannot_be_read() -> None:
    broken = Database(error=OperationalError("SELECT secret", None, Exception("secret")))
    with pytest.raises(LaunchesUnavailable, match=r"^The history is not available: it cannot be read\.$"):
        await LaunchSteps().read(broken, minute_of(START), 15, START)  # type: ignore[arg-type]
