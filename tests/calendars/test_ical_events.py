"""Contents of an iCal calendar: recurrence, exceptions, zones, hostile and broken events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.calendars.ical_events import CalendarUnreadable, read_ical
from dra_spawner.calendars.occurrences import ADDITIONAL, IN_TOTAL, Occurrence
from tests.calendars.ics_text import calendar, event

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
END = datetime(2026, 12, 31, tzinfo=UTC)


def read(*events: str, head: str = "") -> tuple[tuple[Occurrence, ...], tuple[str, ...]]:
    found = read_ical(calendar(*events, head=head), BEGIN, END, source="courses", zone=BERLIN)
    return found.occurrences, found.problems


def begins(*events: str, head: str = "") -> list[str]:
    occurrences, problems = read(*events, head=head)
    assert not problems
    return [each.begins.astimezone(UTC).strftime("%m-%d %H:%M") for each in occurrences]


CLASS = ("DTSTART;TZID=Europe/Berlin:20261020T100000", "DTEND;TZID=Europe/Berlin:20261020T120000")


def test_one_event() -> None:
    (found,), problems = read(event(*CLASS, "SUMMARY:Data science 8", "DESCRIPTION:200 of gpu-slice"))
    assert not problems
    assert found == Occurrence(
        "Data science 8",
        "gpu-slice",
        datetime(2026, 10, 20, 10, tzinfo=BERLIN),
        datetime(2026, 10, 20, 12, tzinfo=BERLIN),
        200,
        source="courses",
    )


def test_the_wall_clock_stays_over_the_change_to_winter_time() -> None:
    weekly = event(*CLASS, "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY;COUNT=3")
    assert begins(weekly) == ["10-20 08:00", "10-27 09:00", "11-03 09:00"]


def test_an_exception_is_left_out_and_a_moved_occurrence_is_moved() -> None:
    weekly = event(
        *CLASS, "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY;COUNT=4", "EXDATE;TZID=Europe/Berlin:20261103T100000"
    )
    moved = event(
        "RECURRENCE-ID;TZID=Europe/Berlin:20261110T100000",
        "DTSTART;TZID=Europe/Berlin:20261111T140000",
        "DTEND;TZID=Europe/Berlin:20261111T160000",
        "SUMMARY:200 of gpu-slice",
    )
    assert begins(weekly, moved) == ["10-20 08:00", "10-27 09:00", "11-11 13:00"]


def test_a_cancelled_occurrence_is_left_out() -> None:
    weekly = event(*CLASS, "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY;COUNT=2")
    cancelled = event(
        "RECURRENCE-ID;TZID=Europe/Berlin:20261027T100000",
        "DTSTART;TZID=Europe/Berlin:20261027T100000",
        "DTEND;TZID=Europe/Berlin:20261027T120000",
        "SUMMARY:200 of gpu-slice",
        "STATUS:CANCELLED",
    )
    assert begins(weekly, cancelled) == ["10-20 08:00"]


def test_overlapping_events_are_two_occurrences() -> None:
    first = event(*CLASS, "SUMMARY:200 of gpu-slice", uid="a")
    second = event("DTSTART;TZID=Europe/Berlin:20261020T110000", "DURATION:PT1H", "SUMMARY:30 of gpu-slice", uid="b")
    assert begins(first, second) == ["10-20 08:00", "10-20 09:00"]


@pytest.mark.parametrize("head", ["", "X-WR-TIMEZONE:Europe/Berlin"])
def test_times_without_a_zone_and_whole_days_are_in_the_calendars_zone(head: str) -> None:
    floating = event("DTSTART:20261020T100000", "DURATION:PT1H", "SUMMARY:5 of gpu-slice", uid="a")
    whole_day = event("DTSTART;VALUE=DATE:20261021", "SUMMARY:5 of gpu-slice", uid="b")
    assert begins(floating, whole_day, head=head) == ["10-20 08:00", "10-20 22:00"]


def test_html_of_web_calendars() -> None:
    text = "DESCRIPTION:<p>Hello</p><b>200 of gpu-slice</b> in total<br>10 of &quot;Large GPU&quot; within 5 min"
    occurrences, problems = read(event(*CLASS, "SUMMARY:Class", text))
    assert not problems
    assert [(each.users, each.profile, each.counts) for each in occurrences] == [
        (10, "Large GPU", ADDITIONAL),
        (200, "gpu-slice", IN_TOTAL),
    ]
    assert occurrences[0].ramp == timedelta(minutes=5)


def test_other_appointments_are_nothing() -> None:
    assert read(event(*CLASS, "SUMMARY:Lunch", "DESCRIPTION:with 3 people")) == ((), ())


def test_a_wrong_line_is_named_and_hides_nothing() -> None:
    wrong = event(*CLASS, "SUMMARY:Class", r"DESCRIPTION:200 of gpu slice\n20 of gpu-slice", uid="a")
    occurrences, problems = read(wrong)
    assert [each.users for each in occurrences] == [20]
    (problem,) = problems
    assert "event 'Class' on 2026-10-20 10:00" in problem
    assert "'200 of gpu slice'" in problem


def test_a_broken_event_is_named_and_hides_nothing() -> None:
    broken = event("DTSTART:tomorrow", "SUMMARY:200 of gpu-slice", uid="a")
    occurrences, problems = read(broken, event(*CLASS, "SUMMARY:20 of gpu-slice", uid="b"))
    assert [each.users for each in occurrences] == [20]
    assert len(problems) == 1


@pytest.mark.parametrize(
    "rule", ["FREQ=SECONDLY", "FREQ=MINUTELY", "FREQ=HOURLY", "FREQ=DAILY;BYMINUTE=1,2,3", "FREQ=DAILY;BYSECOND=1"]
)
def test_an_event_that_repeats_too_often_is_refused(rule: str) -> None:
    occurrences, problems = read(event(*CLASS, "SUMMARY:5 of gpu-slice", f"RRULE:{rule}"))
    assert not occurrences
    assert problems == ("event '5 of gpu-slice' repeats more often than daily, which is not allowed",)


def test_an_event_that_repeats_for_centuries_is_refused() -> None:
    occurrences, problems = read(event("DTSTART:19000101T000000Z", "SUMMARY:5 of gpu-slice", "RRULE:FREQ=DAILY"))
    assert not occurrences
    assert "repeats since 1900-01-01" in problems[0]


def test_text_that_is_no_calendar_is_refused() -> None:
    with pytest.raises(CalendarUnreadable, match="BEGIN:VCALENDAR"):
        read_ical("<html>Please sign in</html>", BEGIN, END, source="courses", zone=BERLIN)
    with pytest.raises(CalendarUnreadable, match="characters"):
        read_ical("BEGIN:VCALENDAR" + "x" * 5_000_000, BEGIN, END, source="courses", zone=BERLIN)
    with pytest.raises(CalendarUnreadable, match="events"):
        read_ical(calendar(*[event(*CLASS)] * 5_001), BEGIN, END, source="courses", zone=BERLIN)
