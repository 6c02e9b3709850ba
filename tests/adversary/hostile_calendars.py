"""Events and calendars that are to end the reading of calendars, or to hide events of others; each announces users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from tests.scale_ahead.calendars.ics_text import calendar, event

NOW: Final = datetime(2026, 11, 27, 12, tzinfo=UTC)
_AT: Final = ("DTSTART:20261127T130000Z", "DTEND:20261127T140000Z")
_DEMAND: Final = "SUMMARY:350 of gpu-slice"


def announced(*lines: str, at: tuple[str, ...] = _AT, demand: str = _DEMAND, uid: str = "bad") -> str:
    """An event that announces users."""
    return event(*at, demand, *lines, uid=uid)


def zone(rule: str, offset: str = "+0100") -> str:
    """The definition of a time zone, whose offset changes by a rule."""
    lines = [f"TZOFFSETFROM:{offset}", "TZOFFSETTO:+0000", *([f"RRULE:{rule}"] if rule else [])]
    changes = ("BEGIN:STANDARD", "DTSTART:19700101T000000", *lines, "END:STANDARD")
    return "\r\n".join(("BEGIN:VTIMEZONE", "TZID:Evil", *changes, "END:VTIMEZONE"))


_IN_ZONE: Final = ("DTSTART;TZID=Evil:20261127T130000", "DTEND;TZID=Evil:20261127T140000")


def _zoned(rule: str, offset: str = "+0100") -> Callable[[], str]:
    return lambda: "\r\n".join((zone(rule, offset), announced(at=_IN_ZONE)))


def _of(*lines: str, at: tuple[str, ...] = _AT, demand: str = _DEMAND) -> Callable[[], str]:
    return lambda: announced(*lines, at=at, demand=demand)


def _long(lines: str, times: int, end: str = "") -> Callable[[], str]:
    return lambda: announced(lines * times + end)


EVENTS: Final[Mapping[str, Callable[[], str]]] = {
    "an assertion of Python's reader of HTML": _of("DESCRIPTION:<![foo[x"),
    "HTML that never ends": _long("DESCRIPTION:" + "<" * 19_000, 1),
    "tags that never end": _long("DESCRIPTION:" + "<a " * 6_000, 1),
    "a tag with a name that never ends": _long("DESCRIPTION:<" + "a" * 19_000, 1),
    "quotes that never end": _long("DESCRIPTION:" + "<a b='x" + " c='y" * 3_000, 1),
    "comments that never end": _long("DESCRIPTION:" + "<!--" * 4_900, 1),
    "a character of thousands of digits": _long("DESCRIPTION:&#" + "9" * 10_000 + ";", 1),
    "many characters": _long("DESCRIPTION:" + "&#" * 9_000, 1),
    "a zone that changes each second": _zoned("FREQ=SECONDLY"),
    "a zone that changes each day": _zoned("FREQ=DAILY"),
    "a zone that changes each second of a year": _zoned("FREQ=YEARLY;BYHOUR=1,2,3;BYMINUTE=1;BYSECOND=1"),
    "a zone that changes on 30 February": _zoned("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
    "a zone with a rule that is none": _zoned("FREQ=YEARLY;BYDAY=99MO"),
    "a zone that is four days off": _zoned("", "+9959"),
    "a zone within itself": lambda: "\r\n".join(
        ("BEGIN:VTIMEZONE\r\nTZID:Evil\r\n" * 3_000, "END:VTIMEZONE\r\n" * 3_000, announced(at=_IN_ZONE))
    ),
    "a zone of the file system": _of(at=("DTSTART;TZID=../../etc/passwd:20261127T130000", "DURATION:PT1H")),
    "a zone that is a directory": _of(at=("DTSTART;TZID=America:20261127T130000", "DURATION:PT1H")),
    "a zone with NUL": _of(at=("DTSTART;TZID=\0:20261127T130000", "DURATION:PT1H")),
    "a zone with a long name": _long("", 1, f"DTSTART;TZID={'a' * 5_000}:20261127T130000"),
    "each second": _of("RRULE:FREQ=SECONDLY"),
    "each second of a day": _of("RRULE:FREQ=DAILY;BYHOUR=1;BYMINUTE=1;BYSECOND=1,2,3"),
    "an interval of 0": _of("RRULE:FREQ=DAILY;INTERVAL=0"),
    "a negative interval": _of("RRULE:FREQ=DAILY;INTERVAL=-1"),
    "a long interval": _of("RRULE:FREQ=DAILY;INTERVAL=99999999999999999999"),
    "each 30 February": _of("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
    "each 53rd week in June": _of("RRULE:FREQ=DAILY;BYWEEKNO=53;BYMONTH=6"),
    "two rules": _of("RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"),
    "a long rule": _long("RRULE:" + "FREQ=DAILY;" * 100_000, 1),
    "many exceptions": _long("RRULE:FREQ=DAILY\r\nEXDATE:" + ",".join(["20261127T130000Z"] * 100_000), 1),
    "many lines of exceptions": _long("EXDATE:20261127T130000Z\r\n", 20_000, "RRULE:FREQ=DAILY"),
    "many times": _long("RDATE:" + ",".join(f"20261128T{at:06}Z" for at in range(1_000)), 1),
    "an exception of another type": _of("RRULE:FREQ=DAILY", "EXDATE;VALUE=DATE:20261127"),
    "a duration of centuries": _of(at=("DTSTART:20261127T130000Z", "DURATION:P9999999D")),
    "a duration of too many digits": _of(at=("DTSTART:20261127T130000Z", "DURATION:P99999999999999999W")),
    "a negative duration": _of(at=("DTSTART:20261127T130000Z", "DURATION:-P5D")),
    "weekly until the year 9999": _of("RRULE:FREQ=WEEKLY", at=("DTSTART:20250101T000000Z", "DTEND:99991231T000000Z")),
    "the end of time": _of("RRULE:FREQ=DAILY", at=("DTSTART:99991230T000000Z", "DTEND:99991231T000000Z")),
    "the year 1": _of(at=("DTSTART;TZID=Asia/Tokyo:00010101T000000", "DTEND;TZID=America/New_York:99991231T235959")),
    "the year 0": _of(at=("DTSTART:00000101T000000",)),
    "two begins": _of("DTSTART:20261127T150000Z"),
    "no begin": _of(at=()),
    "a day and a time": _of(at=("DTSTART;VALUE=DATE:20261127", "DTEND:20261127T140000Z")),
    "an end without its zone": _of(at=("DTSTART:20261127T130000", "DTEND:20261127T140000Z")),
    "components in it": _long("BEGIN:X\r\n", 20_000),
    "ends of what did not begin": _long("END:X\r\n", 20_000),
    "no end": lambda: announced().removesuffix("END:VEVENT"),
    "events within it": lambda: "BEGIN:VEVENT\r\n" * 5_000 + announced() + "\r\nEND:VEVENT" * 5_000,
    "many alarms": _long("BEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:-PT1M\r\nEND:VALARM\r\n", 10_000),
    "many parameters": _long("X-A" + ";P=1" * 100_000 + ":v", 1),
    "quotes without an end": _long('X-A;P="' + '"' * 100_000 + ":v", 1),
    "folded lines": _long("X-A:" + "a\r\n " * 100_000, 1),
    "control characters": _of(demand="SUMMARY:1 of a\0b\x1b[31m\u202e"),
    "half a character": _of(demand="SUMMARY:1 of a\ud800"),
    "a line that is none": _of("\0\0\0"),
    "many lines that announce": _long("DESCRIPTION:" + "1 of gpu-slice\\n" * 1_200, 1),
    "many lines that announce nothing": _long("DESCRIPTION:" + "1 of a b\\n" * 1_200, 1),
    "a number of 19,000 digits": _of(demand=f"SUMMARY:{'9' * 19_000} of x"),
    "spaces": _of(demand=f"SUMMARY:1 {' ' * 19_000}of x"),
    "2,000 events before": lambda: "\r\n".join(
        event("DTSTART:20261127T110000Z", "DTEND:20261127T111000Z", "SUMMARY:lunch", uid=f"b{at}")
        for at in range(2_000)
    ),
    "300 events that announce": lambda: "\r\n".join(
        event(*_AT, "SUMMARY:x", "DESCRIPTION:" + "1 of gpu-slice\\n" * 20, uid=f"b{at}") for at in range(300)
    ),
    "events of which each takes long": lambda: "\r\n".join(
        announced("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", uid=f"b{at}") for at in range(3)
    ),
    "the UID of another event": lambda: announced("RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", uid="good-0"),
    "a change of each day": lambda: "\r\n".join(
        event(f"RECURRENCE-ID:20261127T{at:06}Z", *_AT, _DEMAND, uid="bad") for at in range(2_000)
    ),
    "a change of all later ones of another event": lambda: event(
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20261127T000000Z", "DTSTART:99991231T000000Z", _DEMAND, uid="good-1"
    ),
    "a change before time began": lambda: event("RECURRENCE-ID:00010101T000000Z", *_AT, _DEMAND, uid="good-1"),
    "an end before time began": _of("RRULE:FREQ=DAILY;UNTIL=00010101"),
    "an end that is no day": _of("RRULE:FREQ=DAILY;UNTIL=20261399"),
    "periods without an end": _of(f"RDATE;VALUE=PERIOD:{'/,' * 5_000}"),
    "a task of each second": lambda: "\r\n".join(
        ("BEGIN:VTODO", "UID:x", "DTSTART:20070101T000000Z", "RRULE:FREQ=SECONDLY", "END:VTODO")
    ),
    "many free times": lambda: "\r\n".join(
        ("BEGIN:VFREEBUSY", f"FREEBUSY:{','.join(['20261127T120000Z/PT1H'] * 10_000)}", "END:VFREEBUSY")
    ),
}
"""Name -> what stands in a calendar beside the events of others."""

UNREADABLE: Final[Mapping[str, Callable[[], str]]] = {
    "nothing": str,
    "a sign-in page": lambda: "<html>Please sign in</html>",
    "only its begin": lambda: "BEGIN:VCALENDAR\r\n",
    "a part of it": lambda: calendar(announced())[:-20],
    "too many characters": lambda: "BEGIN:VCALENDAR" + "x" * 5_000_000,
    "too many lines": lambda: "BEGIN:VCALENDAR" + "\r\nX" * 500_000,
    "too many events": lambda: calendar("\r\n".join(["BEGIN:VEVENT\r\nEND:VEVENT"] * 20_001)),
}
"""Name -> a text that is no calendar as a whole."""
