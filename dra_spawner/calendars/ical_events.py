"""Occurrences from an iCal calendar (RFC 5545): recurrence, exceptions, moved events and time zones resolved.

Each line of an event's title or description that reads like ``200 of gpu-slice`` is demand; an event has as many as it
likes. Events without one are other appointments. One wrong event does not hide the others: it is a problem,
with its name and its time.

Every writer of a calendar can add events that take long to expand. So an event that repeats more often than daily is
refused, and sizes and numbers are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from html.parser import HTMLParser
from itertools import islice
from typing import TYPE_CHECKING, Final

from dra_spawner.calendars.demand_lines import looks_like_demand, read_demand_line
from dra_spawner.calendars.occurrences import Occurrence

if TYPE_CHECKING:
    from ical.event import Event

__all__ = ["MOST_BYTES", "CalendarReading", "CalendarUnreadable", "read_ical"]

MOST_BYTES: Final = 4_000_000
_MOST_EVENTS: Final = 5_000
_MOST_OCCURRENCES: Final = 2_000
_MOST_TEXT: Final = 20_000
#: An event that repeats daily since then has been expanded in well under a second.
_OLDEST_RECURRING: Final = timedelta(days=20 * 366)
_SLOW_ENOUGH: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_EVENT: Final = ("BEGIN:VEVENT", "END:VEVENT")


class CalendarUnreadable(ValueError):
    """Raised where a text is no calendar at all."""


@dataclass(frozen=True, slots=True)
class CalendarReading:
    """What a calendar says.

    Attributes
    ----------
    occurrences
        In the order of their begin.
    problems
        A sentence for each event that says something which cannot be read, without its full stop.
    """

    occurrences: tuple[Occurrence, ...]
    problems: tuple[str, ...]


def read_ical(text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo) -> CalendarReading:
    """Read the events that overlap a time.

    Parameters
    ----------
    begins, ends
        With time zones.
    source
        Name of the calendar, for messages.
    zone
        Time zone of events without one, and of whole days.

    Raises
    ------
    CalendarUnreadable
        If this is no calendar, or a larger one than is read.
    """
    # Takes a second to import, and only the process that reads calendars needs it.
    from ical.calendar import Calendar
    from ical.exceptions import CalendarError

    if len(text) > MOST_BYTES:
        raise CalendarUnreadable(f"it has {len(text)} characters, more than {MOST_BYTES}")
    if "BEGIN:VCALENDAR" not in text[:1_000].upper():
        raise CalendarUnreadable("it does not begin as an iCal calendar does (BEGIN:VCALENDAR)")
    if (count := text.upper().count(_EVENT[0])) > _MOST_EVENTS:
        raise CalendarUnreadable(f"it has {count} events, more than {_MOST_EVENTS}")
    problems: list[str] = []
    calendar = Calendar()
    for event in _events(text, problems):
        problem = _problem_of(event, begins - _OLDEST_RECURRING)
        if not problem:
            calendar.events.append(event)
        elif any(True for _ in _demand_texts(event)):
            problems.append(f"event {_title(event)!r} {problem}")
    occurrences: list[Occurrence] = []
    try:
        for event in islice(calendar.timeline_tz(zone).overlapping(begins, ends), _MOST_OCCURRENCES):
            occurrences += _occurrences(event, source, zone, problems)
    except (CalendarError, ValueError, OverflowError) as error:
        problems.append(f"repeated events cannot be computed: {str(error)[:200]}")
    occurrences.sort(key=lambda each: (each.begins, each.name, each.profile))
    return CalendarReading(tuple(occurrences), tuple(dict.fromkeys(problems)))


def _events(text: str, problems: list[str]) -> list[Event]:
    """All events that can be read; where one cannot, each is read by itself."""
    from ical.calendar_stream import IcsCalendarStream
    from ical.exceptions import CalendarError

    try:
        return list(IcsCalendarStream.calendar_from_ics(text).events)
    except (CalendarError, ValueError):
        frame, texts = _parts(text)
    found: list[Event] = []
    for each in texts:
        try:
            found += IcsCalendarStream.calendar_from_ics(f"{frame}{each}END:VCALENDAR\r\n").events
        except (CalendarError, ValueError) as error:
            if _mentions_demand(each):
                problems.append(f"an event cannot be read: {str(error)[:200]}")
    return found


def _parts(text: str) -> tuple[str, list[str]]:
    """All that is no event, without the calendar's end; and each event."""
    frame, events, current = [], [], None
    begin, end = _EVENT
    for line in text.splitlines():
        kind = line.strip().upper()
        if kind == begin and current is None:
            current = [line]
        elif current is not None:
            current.append(line)
            if kind == end:
                events.append("\r\n".join(current) + "\r\n")
                current = None
        elif kind != "END:VCALENDAR":
            frame.append(line)
    return "\r\n".join(frame) + "\r\n", events


def _mentions_demand(event_text: str) -> bool:
    unfolded = event_text.replace("\r\n ", "").replace("\r\n\t", "").replace("\\n", "\n").replace(":", "\n", 1)
    return any(looks_like_demand(line.rpartition(":")[2]) for line in unfolded.splitlines())


def _problem_of(event: Event, oldest: datetime) -> str:
    rule = event.rrule
    if event.dtstart is None:
        return "has no begin"
    if rule is None:
        return ""
    if rule.freq.value not in _SLOW_ENOUGH or rule.by_hour or rule.by_minute or rule.by_second:
        return "repeats more often than daily, which is not read"
    if _date_of(event.dtstart) < oldest.date():
        return f"repeats since {_date_of(event.dtstart)}, longer than is read"
    return ""


def _date_of(moment: date | datetime) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _occurrences(event: Event, source: str, zone: tzinfo, problems: list[str]) -> Iterator[Occurrence]:
    if event.status is not None and event.status.value == "CANCELLED":
        return
    assert event.dtstart is not None  # or it is a problem
    begins, ends = _moment(event.dtstart, zone), _moment(event.end, zone)
    name = _title(event)
    for line in _demand_texts(event):
        try:
            demand = read_demand_line(line)
            occurrence = Occurrence(name, demand.profile, begins, ends, demand.users, demand.counts, source=source)
        except ValueError as error:
            problems.append(f"event {name!r} on {begins:%Y-%m-%d %H:%M}: {error}")
            continue
        yield replace(occurrence, ramp=demand.ramp) if demand.ramp is not None else occurrence


def _moment(when: date | datetime, zone: tzinfo) -> datetime:
    if not isinstance(when, datetime):
        return datetime.combine(when, time(), zone)
    return when if when.tzinfo is not None else when.replace(tzinfo=zone)


def _title(event: Event) -> str:
    return " ".join((event.summary or "without a title").split())[:100]


def _demand_texts(event: Event) -> Iterator[str]:
    for text in (event.summary, event.description):
        for line in _plain_text(text or "").splitlines():
            if looks_like_demand(line):
                yield line


def _plain_text(text: str) -> str:
    """Text without HTML, which web calendars put into descriptions."""
    text = text[:_MOST_TEXT]
    if "<" not in text and "&" not in text:
        return text
    reader = _TextOfHtml()
    reader.feed(text)
    reader.close()
    return "".join(reader.parts)


class _TextOfHtml(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("b", "i", "u", "em", "strong", "span", "a", "font"):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.handle_starttag(tag, None)
