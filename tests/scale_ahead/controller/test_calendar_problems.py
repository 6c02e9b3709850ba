"""Targets while a calendar cannot be read, and entries without effect, in virtual time."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest

from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from tests.placeholders.planner.objects import GPU
from tests.placeholders.planner.simulated_cluster import START
from tests.scale_ahead.calendars.ics_text import calendar, event
from tests.scale_ahead.calendars.read_here import read_here
from tests.scale_ahead.controller.following import Following, entry


async def test_no_surplus_until_calendars_are_read() -> None:
    texts: list[OSError | str] = [
        OSError("down"),
        OSError("down"),
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nEND:VCALENDAR\n",
    ]

    async def read(location: str) -> str:
        text = texts.pop(0)
        if isinstance(text, OSError):
            raise text
        return text

    source = CalendarSource("physics", "/physics.ics", UTC, read=read)
    found = Following(sources=[source], replicas=ReplicaRange(0, 40))
    found.world.node("a", cpu="100", gpus=40)
    for _ in range(3):
        found.world.create_placeholder(GPU)
    await found.ahead.calendars.refresh(found.world.now)
    found.minutes(3)
    assert found.placeholders == 3
    (problem,) = found.ahead.problems(found.world.now)
    assert problem.startswith("calendar physics cannot be read")
    await found.ahead.calendars.refresh(found.world.now + timedelta(hours=2))
    late = found.world.now + timedelta(hours=2)
    assert found.ahead.problems(late)[-1] == "calendar physics could not be read for an hour: there is no good copy"
    await found.ahead.calendars.refresh(found.world.now)
    found.minutes(2)
    assert found.placeholders == 0
    assert found.ahead.problems(found.world.now) == ()


async def test_a_calendar_is_awaited_for_a_day_at_most() -> None:
    async def read(location: str) -> str:
        raise OSError("down")

    book = CalendarBook(sources=[CalendarSource("physics", "/physics.ics", UTC, read=read)])
    assert not book.is_complete(START)
    await book.refresh(START)
    assert not book.is_complete(START + timedelta(hours=23))
    assert book.is_complete(START + timedelta(hours=25))


def test_an_entry_of_a_choice_without_placeholders_is_a_problem() -> None:
    found = Following(entry("30 of gpu-slce", START + timedelta(minutes=10)))
    found.minutes(1)
    assert found.ahead.problems(found.world.now) == (
        "calendar entry 'physics' of calendar_entries is about 'gpu-slce', which has no placeholders",
    )
    found.minutes(200)
    assert found.ahead.problems(found.world.now) == (), "it is over"


def test_a_thousand_entries_of_choices_without_placeholders_are_a_few_problems() -> None:
    found = Following(*(entry(f"1 of x{each}", START + timedelta(minutes=10)) for each in range(1_000)))
    found.minutes(1)
    problems = found.ahead.problems(found.world.now)
    assert len(problems) == 21
    assert problems[-1] == "980 more calendar entries are about other such choices"


def test_an_entry_that_a_limit_cuts_is_a_problem() -> None:
    found = Following(entry("30 of gpu", START + timedelta(minutes=10)), replicas=ReplicaRange(0, 8))
    assert found.minutes(1) == [8]
    (problem,) = found.ahead.problems(found.world.now)
    assert problem == "the calendar needs 30 placeholders of gpu, but its max is 8"


@pytest.mark.promise("A calendar that cannot be read lowers no target.")
async def test_a_calendar_that_is_down_lowers_nothing() -> None:
    """Before a class, while its placeholders come, and during the class: the targets equal those with the calendar."""
    begins = START + timedelta(minutes=40)
    text = calendar(event(f"DTSTART:{begins:%Y%m%dT%H%M%SZ}", "DURATION:PT1H", "SUMMARY:30 of gpu within 20 min"))
    is_down = False

    async def read(location: str) -> str:
        if is_down:
            raise OSError(111, "Connection refused")
        return text

    async def targets(until_down: int) -> tuple[list[int], list[int]]:
        nonlocal is_down
        is_down = False
        found = Following(sources=[CalendarSource("physics", "/physics.ics", UTC, read=read, parse=read_here)])
        found.world.node("a", cpu="100", gpus=40)
        wanted, there = [], []
        for minute in range(100):
            if minute % 5 == 0:
                await found.ahead.calendars.refresh(found.world.now)
                is_down = minute >= until_down
            wanted += found.minutes(1)
            there.append(found.placeholders)
        assert bool(found.ahead.problems(found.world.now)) is is_down
        return wanted, there

    expected = await targets(1000)
    assert max(expected[0]) == 30
    for down_from in (0, 15, 35, 50):
        assert await targets(down_from) == expected, down_from
