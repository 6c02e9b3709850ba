"""Occurrences from an iCal calendar (RFC 5545), with recurrence, exceptions, moved events and time zones resolved.

Each line like ``200 of gpu-slice`` in the title or description of an event announces users; an event may have several.
Events without one are ignored. An invalid event is a problem with its name and time; the other events count.

Each writer of a calendar can add events that take long to expand. So events that repeat more often than daily are
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

__all__ = ["MAX_BYTES", "CalendarReading", "CalendarUnreadable", "read_ical"]

MAX_BYTES: Final = 4_000_000
_MAX_EVENTS: Final = 5_000
_MAX_OCCURRENCES: Final = 2_000
_MAX_TEXT: Final = 20_000
#: Limit of the age of a repeated event: an older daily event takes long to expand.
_OLDEST_RECURRING: Final = timedelta(days=20 * 366)
_SLOW_ENOUGH: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_EVENT: Final = ("BEGIN:VEVENT", "END:VEVENT")


class CalendarUnreadable(ValueError):
    """Raised for a text that is not a calendar, or is too large."""


@dataclass(frozen=True, slots=True)
class CalendarReading:
    """Occurrences and problems of a calendar.

    Attributes
    ----------
    occurrences
        Occurrences in the order of their begin.
    problems
        A sentence for each event that cannot be read, without its full stop.
    """

    occurrences: tuple[Occurrence, ...]
    problems: tuple[str, ...]


def read_ical(text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo) -> CalendarReading:
    """Read the events between two times.

    Parameters
    ----------
    begins, ends
        Times with time zones.
    source
        Name of the calendar, for messages.
    zone
        Time zone of events without one, and of whole days.

    Raises
    ------
    CalendarUnreadable
        If the text is not a calendar, or is too large.
    """
    # The import takes a second, and only the process that reads calendars needs it.
    from ical.calendar import Calendar
    from ical.exceptions import CalendarError

    if len(text) > MAX_BYTES:
        raise CalendarUnreadable(f"it has {len(text)} characters, more than {MAX_BYTES}")
    if "BEGIN:VCALENDAR" not in text[:1_000].upper():
        raise CalendarUnreadable("it does not begin like an iCal calendar (BEGIN:VCALENDAR)")
    if (count := text.upper().count(_EVENT[0])) > _MAX_EVENTS:
        raise CalendarUnreadable(f"it has {count} events, more than {_MAX_EVENTS}")
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
        for event in islice(calendar.timeline_tz(zone).overlapping(begins, ends), _MAX_OCCURRENCES):
            occurrences += _occurrences(event, source, zone, problems)
    except (CalendarError, ValueError, OverflowError) as error:
        problems.append(f"repeated events cannot be computed: {str(error)[:200]}")
    occurrences.sort(key=lambda each: (each.begins, each.name, each.profile))
    return CalendarReading(tuple(occurrences), tuple(dict.fromkeys(problems)))


def _events(text: str, problems: list[str]) -> list[Event]:
    """All readable events. If the whole text cannot be read, each event is read separately."""
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
    """The text without events and without the calendar's end, and the text of each event."""
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
        return "repeats more often than daily, which is not allowed"
    if _date_of(event.dtstart) < oldest.date():
        return f"repeats since {_date_of(event.dtstart)}; allowed are 20 years at most"
    return ""


def _date_of(moment: date | datetime) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _occurrences(event: Event, source: str, zone: tzinfo, problems: list[str]) -> Iterator[Occurrence]:
    if event.status is not None and event.status.value == "CANCELLED":
        return
    assert event.dtstart is not None  # else `_problem_of` has refused it
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
    """The text without HTML, which web calendars write into descriptions."""
    text = text[:_MAX_TEXT]
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
