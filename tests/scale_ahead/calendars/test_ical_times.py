"""Events as the calendars in use write them: their exceptions, changes, ends and zones in another form than their begin."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from dra_spawner.scale_ahead.calendars.calendar_book import CalendarBook
from dra_spawner.scale_ahead.calendars.calendar_file import text_of
from dra_spawner.scale_ahead.calendars.calendar_source import CalendarSource
from dra_spawner.scale_ahead.calendars.ical_events import read_ical
from dra_spawner.scale_ahead.calendars.ical_times import zone_name
from tests.all_of_them import all_of_them
from tests.scale_ahead.calendars.ics_text import calendar, event
from tests.scale_ahead.calendars.read_here import read_here

BERLIN = ZoneInfo("Europe/Berlin")
WINDOW = datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 12, 20, tzinfo=UTC)
TITLE = "SUMMARY:30 of gpu-slice"
AT = ("DTSTART;TZID=Europe/Berlin:20261123T100000", "DTEND;TZID=Europe/Berlin:20261123T120000", TITLE)
IN_UTC = ("DTSTART:20261123T090000Z", "DTEND:20261123T110000Z", TITLE)
FLOATING = ("DTSTART:20261123T100000", "DTEND:20261123T120000", TITLE)
WHOLE_DAY = ("DTSTART;VALUE=DATE:20261123", "DTEND;VALUE=DATE:20261124", TITLE)
WEEKS = "RRULE:FREQ=WEEKLY;COUNT=3"
WEEKLY = ["11-23 10:00", "11-30 10:00", "12-07 10:00"]
MOVED = ("DTSTART;TZID=Europe/Berlin:20261201T140000", "DTEND;TZID=Europe/Berlin:20261201T150000", TITLE)
ONE_IS_MOVED = ["11-23 10:00", "12-01 14:00", "12-07 10:00"]
ONE_IS_LEFT_OUT = ["11-23 10:00", "12-07 10:00"]
DAYS = ["11-23 00:00", "11-30 00:00", "12-07 00:00"]

#: What Outlook writes: the zones of Windows, with their rules since the year 1601.
OUTLOOK_ZONE = "\r\n".join(
    (
        "X-WR-CALNAME:Courses", "X-WR-TIMEZONE:W. Europe Standard Time", "BEGIN:VTIMEZONE",
        "TZID:W. Europe Standard Time", "BEGIN:STANDARD", "DTSTART:16010101T030000", "TZOFFSETFROM:+0200",
        "TZOFFSETTO:+0100", "RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=10", "END:STANDARD", "BEGIN:DAYLIGHT",
        "DTSTART:16010101T020000", "TZOFFSETFROM:+0100", "TZOFFSETTO:+0200",
        "RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=-1SU;BYMONTH=3", "END:DAYLIGHT", "END:VTIMEZONE",
    )
)  # fmt: skip
OUTLOOK = (
    "CLASS:PUBLIC", "PRIORITY:5", "SEQUENCE:3", "STATUS:CONFIRMED", "SUMMARY;LANGUAGE=de-DE:30 of gpu-slice",
    "X-MICROSOFT-CDO-BUSYSTATUS:BUSY", "X-MICROSOFT-CDO-INSTTYPE:1",
)  # fmt: skip
#: What Nextcloud and Thunderbird write: the zone with its present rules.
NEXTCLOUD_ZONE = "\r\n".join(
    (
        "CALSCALE:GREGORIAN", "BEGIN:VTIMEZONE", "TZID:Europe/Berlin", "BEGIN:DAYLIGHT", "TZOFFSETFROM:+0100",
        "TZOFFSETTO:+0200", "TZNAME:CEST", "DTSTART:19700329T020000", "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
        "END:DAYLIGHT", "BEGIN:STANDARD", "TZOFFSETFROM:+0200", "TZOFFSETTO:+0100", "TZNAME:CET",
        "DTSTART:19701025T030000", "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU", "END:STANDARD", "END:VTIMEZONE",
    )
)  # fmt: skip


def change(when: str, *lines: str) -> str:
    return event(f"RECURRENCE-ID{when}", *(lines or MOVED))


def again(rule: str, *lines: str, at: Sequence[str] = AT) -> str:
    return event(*at, rule, *lines)


SHAPES: dict[str, tuple[list[str], Sequence[str]]] = {
    "a change in UTC": (ONE_IS_MOVED, [again(WEEKS), change(":20261130T090000Z")]),
    "a change in another zone": (ONE_IS_MOVED, [again(WEEKS), change(";TZID=Europe/London:20261130T090000")]),
    "a change without a zone": (ONE_IS_MOVED, [again(WEEKS), change(":20261130T100000")]),
    "a change of a day": (ONE_IS_MOVED, [again(WEEKS), change(";VALUE=DATE:20261130")]),
    "a change in a zone of a series in UTC": (
        ONE_IS_MOVED, [again(WEEKS, at=IN_UTC), change(";TZID=Europe/Berlin:20261130T100000")],
    ),
    "a change in a zone of a series without one": (
        ONE_IS_MOVED, [again(WEEKS, at=FLOATING), change(";TZID=Europe/Berlin:20261130T100000")],
    ),
    "a change before its series": (ONE_IS_MOVED, [change(":20261130T090000Z"), again(WEEKS)]),
    "a cancelled occurrence in UTC, without a title": (
        ONE_IS_LEFT_OUT, [again(WEEKS), change(":20261130T090000Z", "DTSTART:20261130T090000Z", "STATUS:CANCELLED")],
    ),
    "a cancelled series": ([], [again(WEEKS, "STATUS:CANCELLED")]),
    "a change at the end of time": (WEEKLY, [again(WEEKS), change(":00010101T000000Z", *MOVED[:2])]),
    "a change of all later ones": (
        ["11-23 10:00", "12-01 14:00", "12-08 14:00"],
        [again(WEEKS), change(";RANGE=THISANDFUTURE;TZID=Europe/Berlin:20261130T100000")],
    ),
    "all later ones are cancelled": (
        ["11-23 10:00"], [again(WEEKS), change(";RANGE=THISANDFUTURE:20261130T090000Z", *IN_UTC, "STATUS:CANCELLED")],
    ),
    "an exception without a zone": (ONE_IS_LEFT_OUT, [again(WEEKS, "EXDATE:20261130T100000")]),
    "an exception in UTC": (ONE_IS_LEFT_OUT, [again(WEEKS, "EXDATE:20261130T090000Z")]),
    "an exception of a day": (ONE_IS_LEFT_OUT, [again(WEEKS, "EXDATE;VALUE=DATE:20261130")]),
    "exceptions in a list": (["11-23 10:00"], [again(WEEKS, "EXDATE:20261130T090000Z,20261207T090000Z")]),
    "additional times without a rule": (
        ["11-23 10:00", "11-25 10:00", "11-26 10:00"],
        [event(*AT, "RDATE;TZID=Europe/Berlin:20261125T100000,20261126T100000")],
    ),
    "additional times that have the first": (WEEKLY[:1], [event(*AT, "RDATE;TZID=Europe/Berlin:20261123T100000")]),
    "additional days without a rule": (
        ["11-23 00:00", "11-25 00:00"], [event(*WHOLE_DAY, "RDATE;VALUE=DATE:20261125")],
    ),
    "an additional period": (
        ["11-23 10:00", "11-25 10:00"], [event(*AT, "RDATE;VALUE=PERIOD:20261125T090000Z/PT2H")],
    ),
    "until a day": (WEEKLY, [again("RRULE:FREQ=WEEKLY;UNTIL=20261207")]),
    "until a time without a zone": (WEEKLY, [again("RRULE:FREQ=WEEKLY;UNTIL=20261207T235959;BYDAY=MO")]),
    "until a time in UTC, without a zone": (WEEKLY, [again("RRULE:FREQ=WEEKLY;UNTIL=20261207T235959Z", at=FLOATING)]),
    "whole days until a time": (DAYS, [again("RRULE:UNTIL=20261207T000000Z;FREQ=WEEKLY", at=WHOLE_DAY)]),
    "whole days until midnight of the hub": (DAYS, [again("RRULE:FREQ=WEEKLY;UNTIL=20261206T230000Z", at=WHOLE_DAY)]),
    "small letters": (WEEKLY, [again("rrule:freq=weekly;count=3", at=[*(each.replace("TZID", "tzid") for each in AT)])]),
    "Outlook": (
        ONE_IS_MOVED[:2],
        [
            OUTLOOK_ZONE,
            event(
                "DTSTART;TZID=W. Europe Standard Time:20261123T100000",
                "DTEND;TZID=W. Europe Standard Time:20261123T120000",
                "RRULE:FREQ=WEEKLY;UNTIL=20261207T090000Z;INTERVAL=1;BYDAY=MO;WKST=MO",
                "EXDATE;TZID=W. Europe Standard Time:20261207T100000", *OUTLOOK,
            ),
            event(
                "RECURRENCE-ID;TZID=W. Europe Standard Time:20261130T100000",
                "DTSTART;TZID=W. Europe Standard Time:20261201T140000",
                "DTEND;TZID=W. Europe Standard Time:20261201T160000", *OUTLOOK,
            ),
        ],
    ),
    "Google": (
        ONE_IS_MOVED,
        [
            "CALSCALE:GREGORIAN\r\nMETHOD:PUBLISH\r\nX-WR-CALNAME:Courses\r\nX-WR-TIMEZONE:Europe/Berlin",
            again("RRULE:FREQ=WEEKLY;WKST=MO;UNTIL=20261214T225959Z;BYDAY=MO", "EXDATE;TZID=Europe/Berlin:20261214T100000"),
            change(";TZID=Europe/Berlin:20261130T100000", "DTSTART:20261201T130000Z", "DTEND:20261201T150000Z", TITLE),
        ],
    ),
    "Nextcloud": (
        ONE_IS_MOVED,
        [
            NEXTCLOUD_ZONE,
            again("RRULE:FREQ=WEEKLY;BYDAY=MO;UNTIL=20261207T225959Z", "CREATED:20261001T080000Z", "X-MOZ-GENERATION:2"),
            change(";TZID=Europe/Berlin:20261130T100000"),
        ],
    ),
}  # fmt: skip
"""Name -> when the classes begin in Berlin, and the contents of a calendar."""


@all_of_them("shape", SHAPES)
def test_what_calendars_in_use_write(shape: tuple[list[str], Sequence[str]]) -> None:
    expected, parts = shape
    found = read_ical(calendar(*parts), *WINDOW, source="courses", zone=BERLIN)
    assert not found.problems
    assert [each.begins.astimezone(BERLIN).strftime("%m-%d %H:%M") for each in found.occurrences] == expected
    assert all(each.users == 30 for each in found.occurrences)


def test_a_change_of_all_later_ones_moves_them_into_the_window_and_out_of_it() -> None:
    """With its own length, and at the same time of the day as summer time ends."""
    since = change(";RANGE=THISANDFUTURE:20261005T080000Z", *(each.replace("202612", "202610") for each in MOVED))
    moved = [again("RRULE:FREQ=WEEKLY", at=[each.replace("202611", "202609") for each in AT]), since]
    moved[0] = moved[0].replace("20260923", "20260928")
    window = datetime(2026, 10, 14, tzinfo=UTC), datetime(2026, 10, 28, tzinfo=UTC)
    found = read_ical(calendar(*moved), *window, source="courses", zone=BERLIN).occurrences
    assert [each.begins.isoformat() for each in found] == ["2026-10-15T14:00:00+02:00", "2026-10-22T14:00:00+02:00"]
    assert {each.ends - each.begins for each in found} == {timedelta(hours=1)}
    far = again(WEEKS), change(";RANGE=THISANDFUTURE:20261130T090000Z", "DTSTART:20270301T090000Z", TITLE)
    reading = read_ical(calendar(*far), *WINDOW, source="courses", zone=BERLIN)
    assert len(reading.occurrences) == 2
    (problem,) = reading.problems
    assert problem == "event '30 of gpu-slice' moves all later occurrences by more than 31 days: they stay"


def fixed_zone(*more: str) -> str:
    lines = (
        "BEGIN:STANDARD",
        "DTSTART:16010101T000000",
        "TZOFFSETFROM:+0530",
        "TZOFFSETTO:+0530",
        *more,
        "END:STANDARD",
    )
    return "\r\n".join(("BEGIN:VTIMEZONE", "TZID:India Standard Time", *lines, "END:VTIMEZONE"))


def test_a_zone_whose_clock_never_changes() -> None:
    """Outlook defines the zones of India, China and Arabia without a rule. A zone that changed once has two parts."""
    at = ("DTSTART;TZID=India Standard Time:20261123T143000", "DURATION:PT2H", TITLE)
    later = ("BEGIN:STANDARD", "DTSTART:20261128T000000", "TZOFFSETFROM:+0530", "TZOFFSETTO:+0630")
    for zone, begins in (
        (fixed_zone(), WEEKLY),
        (fixed_zone("RDATE:19500101T000000"), WEEKLY),
        (fixed_zone("END:STANDARD", *later), ["11-23 10:00", "11-30 09:00", "12-07 09:00"]),
    ):
        found = read_ical(calendar(again(WEEKS, at=at), head=zone), *WINDOW, source="courses", zone=BERLIN)
        assert not found.problems
        assert [each.begins.astimezone(BERLIN).strftime("%m-%d %H:%M") for each in found.occurrences] == begins


@all_of_them(
    "names",
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/BERLIN", "Europe/Berlin"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("Pacific Standard Time", "America/Los_Angeles"),
        ("/freeassociation.sourceforge.net/Europe/Berlin", "Europe/Berlin"),
        ("/example.org/20260101_1/America/Argentina/Salta", "America/Argentina/Salta"),
        ("tzone://Microsoft/Utc", "UTC"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("Mars", "Mars"),
    ],
)
def test_names_of_zones(names: tuple[str, str]) -> None:
    assert zone_name(names[0]) == names[1]


async def test_an_event_in_two_calendars_announces_its_users_once() -> None:
    """As after an invitation. An event with its UID that announces other users counts, too, and hides nothing."""
    other = event(*AT[:2], "SUMMARY:3 of gpu-slice", uid="1")
    alone = event(*AT, uid="2"), event(*AT, uid="3")
    texts = {"a": calendar(again(WEEKS), alone[0]), "b": calendar(again(WEEKS), other, alone[1], alone[1])}

    async def read(location: str) -> str:
        return texts[location]

    book = CalendarBook((), [CalendarSource(each, each, BERLIN, read=read, parse=read_here) for each in texts])
    await book.refresh(WINDOW[0])
    found = book.occurrences(WINDOW[0], timedelta(days=8))
    assert sorted((each.users, each.source) for each in found) == [(3, "b"), (30, "a"), (30, "a"), (30, "b"), (30, "b")]


def test_a_line_that_is_folded_within_a_character() -> None:
    content = calendar(event(*AT[:2], "SUMMARY:30 of Größe")).encode()
    at = content.index("ö".encode()) + 1
    text = text_of(content[:at] + b"\r\n " + content[at:])
    (found,) = read_ical(text, *WINDOW, source="courses", zone=BERLIN).occurrences
    assert found.profile == "Größe"
