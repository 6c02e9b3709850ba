"""The events of an iCal text (RFC 5545), taken apart before anything in them is interpreted.

An event without an end ends where the next one begins, so a malformed event changes nothing about its neighbours. Only
properties that say when an event takes place and whom it announces are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from html import unescape
from typing import Final

from dra_spawner.scale_ahead.calendars.demand_lines import looks_like_demand

MAX_BYTES: Final = 4_000_000
_MAX_LINES: Final = 400_000
_MAX_EVENTS: Final = 20_000
_MAX_ZONES: Final = 100
#: Limit of the lines of an event that say when it takes place; a web calendar writes one for each exception.
_MAX_TIMES: Final = 1_000
#: Limit of the characters of one such line.
_MAX_TIME_LINE: Final = 20_000
_MAX_TEXT: Final = 20_000
_MAX_ZONE_LINES: Final = 500
_LINE: Final = re.compile(r"[^\r\n]+")
_FOLD: Final = re.compile(r"(?:\r\n|\r|\n)[ \t]")
_HEAD: Final = re.compile(r'([A-Za-z0-9-]{1,40})(?:;(?:[^":]|"[^"]*+")*+)?:')
_ZONE: Final = re.compile(r';TZID=(?:"([^"]*)"|([^";:,]*))', re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
#: A tag, comment or declaration of HTML. It has no other tag in it, so that the search takes linear time.
_TAG: Final = re.compile(r"""<[!?/]?([A-Za-z\[-][^\s<>"'/]*+)(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>""")
#: Tags within a line.
_INLINE: Final = frozenset({"b", "i", "u", "em", "strong", "span", "a", "font"})
_TIMES: Final = frozenset({"DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID"})
_DAY: Final = re.compile(r"(?:^|:)(\d{4})(\d\d)(\d\d)(?:T\d{6}Z?)?(?:;|$)")
#: A duration of less than a hundred days.
_DAYS: Final = re.compile(r":P(?:\d{1,2}D)?(?:T[0-9HMS]{1,12})?$", re.IGNORECASE)
_HUNDRED_DAYS: Final = timedelta(days=100)
#: Days of time zones, and some more.
_MARGIN: Final = timedelta(days=2)
_HEAD_LENGTH: Final = 20
_LONGEST_SHOWN: Final = 100


class CalendarUnreadable(ValueError):
    """Raised for a text that is not a calendar, or exceeds a limit."""


@dataclass(slots=True)
class EventText:
    """What an event says, as it is written.

    Attributes
    ----------
    times
        Lines of properties such as ``DTSTART`` and ``RRULE``, unfolded.
    summary, description
        Texts without escapes and HTML.
    problem
        Why the event cannot be read, as a part of a sentence; empty if it can.
    """

    times: list[str] = field(default_factory=list)
    summary: str = ""
    description: str = ""
    uid: str = ""
    is_cancelled: bool = False
    problem: str = ""

    @property
    def is_repeated(self) -> bool:
        return any(each[:5].upper() in ("RRULE", "RDATE") for each in self.times)

    def may_overlap(self, begins: date, ends: date) -> bool:
        """Whether it may take place between two days. Only what is certainly earlier or later is not."""
        written = {each[:_HEAD_LENGTH].upper().replace(":", ";").partition(";")[0]: each for each in self.times}
        first = _day_of(written.get("DTSTART", ""))
        if first is None or "RDATE" in written:
            return True
        last = first
        if rule := written.get("RRULE", ""):
            until = _day_of(rule.upper().rpartition("UNTIL=")[2])
            if until is None:
                return first <= ends + _MARGIN
            last = until
        if (end := _day_of(written.get("DTEND", ""))) is not None:
            length = end - first
        elif "DURATION" not in written or _DAYS.search(written["DURATION"]):
            length = _HUNDRED_DAYS
        else:
            return True
        return first <= ends + _MARGIN and _later(last, length) >= begins - _MARGIN

    @property
    def title(self) -> str:
        """The title as one printable line."""
        return one_line(self.summary) or "without a title"

    @property
    def demand_texts(self) -> list[str]:
        """Lines that begin like an announcement."""
        lines = (*self.summary.splitlines(), *self.description.splitlines())
        return [each for each in lines if looks_like_demand(each)]


@dataclass(frozen=True, slots=True)
class IcalParts:
    """The parts of a calendar that matter.

    Attributes
    ----------
    series
        Events by their UID: a repeated event and its changed occurrences have the same. Events without a UID are alone.
    zones
        Text of each ``VTIMEZONE`` by its name.
    zone_name
        Name of the zone of times without one; empty if the calendar does not say it.
    """

    series: tuple[tuple[EventText, ...], ...]
    zones: dict[str, str]
    zone_name: str


def one_line(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """The text as one printable line, shortened."""
    # Before it is split: only its beginning is needed.
    joined = " ".join(text[: 4 * longest].split())
    shown = "".join(each if each.isprintable() else "\ufffd" for each in joined)
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def split_ical(text: str) -> IcalParts:
    """Take a calendar apart.

    Raises
    ------
    CalendarUnreadable
        If the text is not a whole calendar, or exceeds a limit.
    """
    if len(text) > MAX_BYTES:
        raise CalendarUnreadable(f"it has {len(text)} characters, more than {MAX_BYTES}")
    if "BEGIN:VCALENDAR" not in text[:1_000].upper():
        raise CalendarUnreadable("it does not begin like an iCal calendar (BEGIN:VCALENDAR)")
    reader = _Reader()
    for number, match in enumerate(_LINE.finditer(_FOLD.sub("", text))):
        if number >= _MAX_LINES:
            raise CalendarUnreadable(f"it has more than {_MAX_LINES} lines")
        reader.read(match[0])
    if not reader.is_ended:
        raise CalendarUnreadable("it ends before its last line (END:VCALENDAR)")
    series: dict[object, list[EventText]] = {}
    for each in reader.events:
        series.setdefault(each.uid or id(each), []).append(each)
    return IcalParts(tuple(map(tuple, series.values())), reader.zones, reader.zone_name)


class _Reader:
    """Takes lines, and knows in which component they are."""

    def __init__(self) -> None:
        self.events: list[EventText] = []
        self.zones: dict[str, str] = {}
        self.zone_name = ""
        self.is_ended = False
        self._event: EventText | None = None
        self._zone: list[str] | None = None
        self._inner = 0  # components within an event, such as alarms

    def read(self, line: str) -> None:
        """Take the next line."""
        begin = line[:6].upper()
        if begin == "BEGIN:":
            self._begin(line[6:].strip().upper(), line)
        elif begin[:4] == "END:":
            self._end(line[4:].strip().upper(), line)
        elif self._event is not None:
            if not self._inner:
                _add_property(self._event, line)
        elif self._zone is not None:
            self._zone.append(line)
        elif begin == "X-WR-T" and not self.zone_name:
            name, _, value = line.partition(":")
            if name.upper() == "X-WR-TIMEZONE":
                self.zone_name = value.strip()

    def _begin(self, component: str, line: str) -> None:
        self.is_ended = False
        if component == "VEVENT":
            self._close_event("has no end (END:VEVENT)")
            self._zone, self._inner = None, 0
            if len(self.events) >= _MAX_EVENTS:
                raise CalendarUnreadable(f"it has more than {_MAX_EVENTS} events")
            self._event = EventText()
        elif self._event is not None:
            self._inner += 1
        elif component == "VTIMEZONE":
            self._zone = [line]
        elif self._zone is not None:
            self._zone.append(line)

    def _end(self, component: str, line: str) -> None:
        if component == "VCALENDAR":
            self._close_event("has no end (END:VEVENT)")
            self._zone, self.is_ended = None, True
        elif component == "VEVENT":
            self._close_event("")
        elif self._event is not None:
            self._inner = max(self._inner - 1, 0)
        elif self._zone is not None:
            self._zone.append(line)
            if component == "VTIMEZONE":
                self._close_zone(self._zone)
                self._zone = None

    def _close_event(self, problem: str) -> None:
        if self._event is not None:
            self._event.problem = self._event.problem or problem
            self.events.append(self._event)
        self._event, self._inner = None, 0

    def _close_zone(self, lines: list[str]) -> None:
        names = (each.partition(":")[2].strip() for each in lines if each[:5].upper() in ("TZID:", "TZID;"))
        name = next(names, "")
        if name and len(self.zones) < _MAX_ZONES and len(lines) <= _MAX_ZONE_LINES:
            self.zones.setdefault(name, "\r\n".join(lines) + "\r\n")


def _add_property(event: EventText, line: str) -> None:
    head = _HEAD.match(line[:_MAX_TIME_LINE])
    if head is None:
        return
    name, value = head[1].upper(), line[head.end() : head.end() + _MAX_TEXT]
    if name in _TIMES:
        if len(line) > _MAX_TIME_LINE:
            event.problem = f"has a line {name} of {len(line)} characters; allowed are at most {_MAX_TIME_LINE}"
        elif len(event.times) >= _MAX_TIMES:
            event.problem = f"has more than {_MAX_TIMES} lines about its times"
        else:
            event.times.append(line)
    elif name == "SUMMARY":
        event.summary = event.summary or _plain_text(value)
    elif name == "DESCRIPTION":
        event.description = event.description or _plain_text(value)
    elif name == "UID":
        event.uid = event.uid or value.strip()
    elif name == "STATUS":
        event.is_cancelled = value.strip().upper() == "CANCELLED"


def _later(day: date, length: timedelta) -> date:
    return date.max if length > date.max - day else day + length


def _day_of(line: str) -> date | None:
    """The day of a time at the end of a line; None without one."""
    found = _DAY.search(line)
    try:
        return date(*map(int, found.groups())) if found is not None else None
    except ValueError:
        return None


def _plain_text(value: str) -> str:
    """A text without its escapes, and without the HTML that web calendars write into descriptions."""
    text = _ESCAPE.sub(lambda found: "\n" if found[1] in "nN" else found[1], value)
    if "<" in text:
        text = _TAG.sub(lambda found: "" if found[1].lower() in _INLINE else "\n", text)
    if "&" in text:
        try:
            text = unescape(text)
        except ValueError:  # a number of thousands of digits
            return text
    return text


def zones_of(event: EventText) -> frozenset[str]:
    """Names of the time zones of an event's times."""
    return frozenset(quoted or plain for each in event.times for quoted, plain in _ZONE.findall(each[:1_000]))
