"""Contents of an iCal calendar: recurrence, exceptions, zones, hostile and broken events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.calendars.ical_events import CalendarUnreadable, read_ical
from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, IN_TOTAL, Occurrence
from tests.all_of_them import all_of_them
from tests.scale_ahead.calendars.ics_text import calendar, event

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


CLASS_WEEK = datetime(2026, 10, 19, tzinfo=UTC)
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


def test_a_begin_that_does_not_exist_as_summer_time_begins_is_moved() -> None:
    window = datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 4, 10, tzinfo=UTC)
    begin = "DTSTART;TZID=Europe/Berlin:20260322T023000"
    own_end = "DTEND;TZID=Europe/Berlin:20260322T031500"
    for lines in ((begin, own_end), (begin, "DURATION:PT45M"), ("DTSTART:20260322T023000", "DTEND:20260322T031500")):
        weekly = event(*lines, "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY;COUNT=3")
        found = read_ical(calendar(weekly), *window, source="courses", zone=BERLIN)
        assert not found.problems, lines
        lengths = {each.ends.astimezone(UTC) - each.begins.astimezone(UTC) for each in found.occurrences}
        assert lengths == {timedelta(minutes=45)}, lines
        shown = [each.begins.isoformat() for each in found.occurrences]
        assert shown == ["2026-03-22T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-04-05T02:30:00+02:00"], lines


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


@all_of_them(
    "rule",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=4;BYMONTH=10,11",
        "FREQ=DAILY;BYDAY=MO,WE;UNTIL=20261110T000000Z",
        "FREQ=WEEKLY",
        "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,TU,SU;WKST=SU",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYSETPOS=-1",
        "FREQ=MONTHLY;BYDAY=2TU",
        "FREQ=YEARLY;BYMONTH=11;BYDAY=-1FR",
    ],
)
def test_an_event_of_many_years_takes_place_as_a_young_one(rule: str) -> None:
    """Also at the change of the clock. 840 weeks are whole periods of all rules by days and weeks."""
    times = []
    for days in (0, 840 * 7):
        first = datetime(2010, 1, 5, 22) + timedelta(days=days)
        at = (f"DTSTART;TZID=Europe/Berlin:{first:%Y%m%dT%H%M%S}", "DURATION:PT30H", f"RRULE:{rule}")
        times.append(begins(event(*at, "SUMMARY:5 of gpu-slice", "EXDATE;TZID=Europe/Berlin:20261102T220000")))
    assert times[0] == times[1]
    assert times[0]


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
        read_ical(calendar(*[event(*CLASS)] * 20_001), BEGIN, END, source="courses", zone=BERLIN)


def test_events_that_announce_nobody_use_up_no_limit() -> None:
    lunches = (event(*CLASS, "SUMMARY:Lunch", uid=f"lunch-{at}") for at in range(6_000))
    years_ago = (
        event(f"DTSTART:20200101T{at:06}Z", end, *rule, "SUMMARY:5 of gpu-slice", uid=f"{at}{end}{rule}")
        for at in range(400)
        for end in ("DURATION:PT1H", "DTEND:20200101T235959Z")
        for rule in ((), ("RRULE:FREQ=WEEKLY;UNTIL=20210101T000000Z",))
    )
    occurrences, problems = read(*lunches, *years_ago, event(*CLASS, "SUMMARY:5 of gpu-slice"))
    assert [each.users for each in occurrences] == [5]
    assert not problems


def test_an_event_that_announces_too_much_is_cut_and_hides_nothing() -> None:
    many = r"\n".join(["1 of gpu-slice"] * 30)
    crowd = (event(*CLASS, "SUMMARY:Crowd", f"DESCRIPTION:{many}", uid=f"crowd-{at}") for at in range(600))
    later = event("DTSTART:20261101T100000Z", "DURATION:PT1H", "SUMMARY:5 of gpu-slice", uid="later")
    found = read_ical(calendar(*crowd, later), CLASS_WEEK, CLASS_WEEK + timedelta(days=21), source="c", zone=BERLIN)
    assert len(found.occurrences) == 2_100
    assert found.occurrences[-1].users == 5
    assert found.problems == (
        "9901 occurrences are left out: more than 2100 are announced",
        "event 'Crowd' announces users in 30 lines; the first 20 count",
    )


def test_an_event_that_takes_long_has_another_turn_and_is_never_cut_in_silence() -> None:
    never = [event(*CLASS, "SUMMARY:5 of gpu", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", uid=each) for each in "abc"]
    daily = event("DTSTART:20080101T080000Z", "DURATION:PT1H", "SUMMARY:7 of gpu", "RRULE:FREQ=DAILY", uid="d")
    found = read_ical(calendar(*never, daily), BEGIN, END, source="courses", zone=BERLIN, seconds=1.0)
    assert [each.users for each in found.occurrences] == [7] * 91
    assert found.problems == ("event '5 of gpu' takes too long to compute",)


def test_a_changed_occurrence_that_cannot_be_read_hides_no_other() -> None:
    weekly = event(*CLASS, "SUMMARY:200 of gpu-slice", "RRULE:FREQ=WEEKLY;COUNT=3")
    broken = event("RECURRENCE-ID;TZID=Europe/Berlin:20261027T100000", "DTSTART:soon", "SUMMARY:Moved")
    moved = event(
        "RECURRENCE-ID;TZID=Europe/Berlin:20261103T100000", "DTSTART:20261104T100000Z", "DURATION:PT1H",
        "SUMMARY:3 of gpu-slice",
    )  # fmt: skip
    occurrences, (problem,) = read(weekly, broken, moved)
    assert [each.users for each in occurrences] == [200, 200, 3]
    assert problem.startswith("event 'Moved' cannot be read: ")


@pytest.mark.parametrize("head", ["", "X-WR-TIMEZONE:Europe/Berlin"])
def test_a_zone_that_the_calendar_defines(head: str) -> None:
    changes = (
        ("STANDARD", "16011028T030000", "+0200", "+0100", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10"),
        ("DAYLIGHT", "16010325T020000", "+0100", "+0200", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3"),
    )
    lines = [head] if head else []
    lines += ("BEGIN:VTIMEZONE", "TZID:W. Europe")
    for kind, start, before, after, rule in changes:
        lines += (f"BEGIN:{kind}", f"DTSTART:{start}", f"TZOFFSETFROM:{before}", f"TZOFFSETTO:{after}", rule)
        lines.append(f"END:{kind}")
    lines.append("END:VTIMEZONE")
    weekly = event(
        'DTSTART;TZID="W. Europe":20261020T100000',
        "DURATION:PT1H",
        "SUMMARY:5 of gpu-slice",
        "RRULE:FREQ=WEEKLY;COUNT=3",
    )
    assert begins(weekly, head="\r\n".join(lines)) == ["10-20 08:00", "10-27 09:00", "11-03 09:00"]
