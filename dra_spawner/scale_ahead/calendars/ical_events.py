"""Occurrences from an iCal calendar (RFC 5545), with recurrence, exceptions, moved events and time zones resolved.

Each line like ``200 of gpu-slice`` in the title or description of an event announces users; an event may have several.
Events without one are ignored. An invalid event is a problem with its name; the other events count.

Each writer of a calendar can add events that take long to compute, or that a library fails at. So each event, with its
changed occurrences, is computed by itself, within its share of the time. Numbers are limited where they cost something.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time as clock
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Final

from dra_spawner.scale_ahead.calendars.demand_lines import read_demand_line
from dra_spawner.scale_ahead.calendars.ical_text import (
    CalendarUnreadable,
    EventText,
    IcalParts,
    one_line,
    split_ical,
    zones_of,
)
from dra_spawner.scale_ahead.calendars.ical_times import (
    PlainTimes,
    changed_time,
    complete_series,
    existing_times,
    known_zones,
    moment_of,
    plain_times,
    plain_zone,
    zone_name,
)
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

if TYPE_CHECKING:
    from ical.event import Event

__all__ = ["CalendarReading", "CalendarUnreadable", "read_ical"]


#: Limit of events that announce users.
_MAX_SERIES: Final = 1_000
#: Limit of lines that announce users in one event.
_MAX_LINES: Final = 20
#: Limits of all occurrences, as each costs time in every forecast.
_MAX_OCCURRENCES: Final = 1_000
_MAX_OCCURRENCES_A_DAY: Final = 100
#: Limit of the times at which one event takes place.
_MAX_TIMES: Final = 100
_MAX_TIMES_A_DAY: Final = 2
_MAX_PROBLEMS: Final = 20
_SECONDS: Final = 10.0
_MAX_SECONDS_AN_EVENT: Final = 0.5
#: Also an event that is read when the time is over has some.
_LEAST_SECONDS: Final = 0.01
#: Limit of the age of a repeated event: an older daily event takes long to expand.
_OLDEST_RECURRING: Final = timedelta(days=20 * 366)
_SLOW_ENOUGH: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
#: Days after which a rule of this frequency is the same again.
_DAYS_OF: Final = {"DAILY": 1, "WEEKLY": 7}
#: Periods before the window that are computed all the same: an event may begin before it, and a week on any day.
_SPARE_PERIODS: Final = 3
#: Parts of a rule by which something happens several times on a day.
_BY_TIME: Final = ("BYHOUR", "BYMINUTE", "BYSECOND")
#: A change may move later occurrences by this much at most.
_LONGEST_SHIFT: Final = timedelta(days=31)
_LONGEST_CAUSE: Final = 200
_LONGEST_UID: Final = 255


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


class _Unusable(Exception):
    """Raised for an event that does not count; the message is a part of a sentence."""


def read_ical(
    text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo, seconds: float = _SECONDS
) -> CalendarReading:
    """Read the events between two times. It may compute for seconds: see `ical_process`.

    Parameters
    ----------
    begins, ends
        Times with time zones.
    source
        Name of the calendar, for messages.
    zone
        Time zone of events without one, and of whole days.
    seconds
        Processor time for all events. The first ones leave what they do not need to the others.

    Raises
    ------
    CalendarUnreadable
        If the text is not a calendar, or is too large.
    """
    parts = split_ical(text)
    days = begins.date(), ends.date()
    series = [
        each
        for each in parts.series
        if any(event.demand_texts for event in each) and any(event.may_overlap(*days) for event in each)
    ]
    # What is computed at once comes first, so that the others have more time.
    series.sort(key=lambda each: any(event.is_repeated for event in each))
    problems: list[str] = []
    if len(series) > _MAX_SERIES:
        problems.append(f"{len(series) - _MAX_SERIES} events are left out: more than {_MAX_SERIES} announce users")
    found: list[tuple[int, Occurrence]] = []
    reader = _SeriesReader(parts, _Window(begins, ends, zone), source)
    for each in _outcomes(series[:_MAX_SERIES], reader, seconds):
        found += enumerate(each.occurrences)
        problems += each.problems
    most = max(_MAX_OCCURRENCES, _MAX_OCCURRENCES_A_DAY * (ends - begins).days)
    if len(found) > most:
        problems.insert(0, f"{len(found) - most} occurrences are left out: more than {most} are announced")
        # The first ones of each event stay, so that no event hides another one.
        found = sorted(found, key=lambda each: (each[0], each[1].begins))[:most]
    in_order = sorted((each for _, each in found), key=lambda each: (each.begins, each.name, each.profile))
    return CalendarReading(tuple(in_order), _first(problems))


def _outcomes(series: Sequence[Sequence[EventText]], reader: _SeriesReader, seconds: float) -> Iterator[_Outcome]:
    """What is read of each event. One that needs more than its share has another turn when the others are done."""
    if series:
        _prepare()
    waiting: deque[tuple[Sequence[EventText], _Outcome | None]] = deque((each, None) for each in series)
    over = clock.process_time() + seconds
    while waiting:
        events, before = waiting.popleft()
        left = over - clock.process_time()
        if before is not None and left <= 0:
            yield before
            continue
        share = min(max(left / (len(waiting) + 1), _LEAST_SECONDS), _MAX_SECONDS_AN_EVENT)
        outcome = reader.read(events, share)
        if outcome.is_slow and before is None and share < _MAX_SECONDS_AN_EVENT:
            waiting.append((events, outcome))
        elif outcome.is_refused and len(events) > 1 and left > 0:
            yield reader.read_without_wrong_ones(events, share)
        else:
            yield outcome


def _first(problems: list[str]) -> tuple[str, ...]:
    """The first problems, and the number of the others."""
    distinct = list(dict.fromkeys(problems))
    if len(distinct) <= _MAX_PROBLEMS:
        return tuple(distinct)
    return (*distinct[:_MAX_PROBLEMS], f"{len(distinct) - _MAX_PROBLEMS} more problems")


@dataclass(frozen=True, slots=True)
class _Window:
    begins: datetime
    ends: datetime
    zone: tzinfo

    @property
    def max_times(self) -> int:
        return max(_MAX_TIMES, _MAX_TIMES_A_DAY * (self.ends - self.begins).days)


@dataclass(slots=True)
class _Outcome:
    """What was read of an event.

    Attributes
    ----------
    is_refused
        Whether nothing counts, and `problems` has the cause.
    is_slow
        Whether the cause is time.
    """

    occurrences: list[Occurrence] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    is_refused: bool = False
    is_slow: bool = False


class _SeriesReader:
    """Reads events of a calendar, each with its changed occurrences."""

    def __init__(self, parts: IcalParts, window: _Window, source: str) -> None:
        self._parts = parts
        self._window = window
        self._source = source

    def read(self, events: Sequence[EventText], seconds: float) -> _Outcome:
        """Read an event; whatever is wrong with it is a problem."""
        if not events:
            return _Outcome()
        try:
            with time_limit(seconds):
                return self._read_all(events)
        except TooSlow:
            is_slow, cause = True, "takes too long to compute"
        except _Unusable as error:
            is_slow, cause = False, str(error)
        except Exception as error:  # libraries raise many kinds of errors
            is_slow, cause = False, f"cannot be read: {_cause(error)}"
        _forget_rules()
        title = next((each.title for each in events if each.demand_texts), events[0].title)
        return _Outcome(problems=[f"event {title!r} {cause}"], is_refused=True, is_slow=is_slow)

    def read_without_wrong_ones(self, events: Sequence[EventText], seconds: float) -> _Outcome:
        """Read events that cannot be read together. Anybody may write an event with the UID of another one.

        It takes twice the seconds at most.
        """
        alone = [(each, self.read([each], seconds / len(events))) for each in events]
        outcome = self.read([each for each, found in alone if not found.is_refused], seconds)
        wrong = [problem for _, found in alone if found.is_refused for problem in found.problems]
        return _Outcome(outcome.occurrences, [*wrong, *outcome.problems])

    def _read_all(self, events: Sequence[EventText]) -> _Outcome:
        found = _Outcome()
        for event, begins, ends in self._times(events, found.problems):
            if not event.is_cancelled:
                found.occurrences += _announced(event, begins, ends, self._source, found.problems)
        return found

    def _times(
        self, events: Sequence[EventText], problems: list[str]
    ) -> Iterator[tuple[EventText, datetime, datetime]]:
        """Each event that overlaps the window, with its begin and end."""
        from ical.calendar_stream import IcsCalendarStream

        window = self._window
        times = [plain_times(each, self._parts.zones) for each in events]
        calendar = IcsCalendarStream.calendar_from_ics(_written(events, times, self._parts))
        for each in calendar.events:
            _refuse_times(each, window.begins - _OLDEST_RECURRING)
        series, found = complete_series(calendar.events, times, window.zone)
        changes = [each for each in found if abs(each.shift) <= _LONGEST_SHIFT]
        if len(changes) < len(found):
            title, most = events[0].title, _LONGEST_SHIFT.days
            problems.append(f"event {title!r} moves all later occurrences by more than {most} days: they stay")
        shift = max((abs(each.shift) for each in changes), default=timedelta(0))
        calendar.events = [_advanced(each, (window.begins - shift).date()) for each in series]
        overlapping = calendar.timeline_tz(window.zone).overlapping(window.begins - shift, window.ends + shift)
        for number, each in enumerate(islice(overlapping, window.max_times + 1)):
            if number == window.max_times:
                raise _Unusable(f"takes place too often: more than {window.max_times} times")
            assert each.dtstart is not None  # else it was refused
            event = int(each.summary or "")
            begins, ends = moment_of(each.dtstart, window.zone), moment_of(each.end, window.zone)
            if changes and not times[event].is_change:
                event, begins, ends = changed_time(event, begins, ends, changes, window.zone)
            begins, ends = existing_times(begins, ends)
            if ends > window.begins and begins < window.ends:
                yield events[event], begins, ends


def _written(events: Sequence[EventText], times: Sequence[PlainTimes], parts: IcalParts) -> str:
    """A calendar with these events only. Their texts stay here: the title of an event is its position."""
    names = frozenset().union(*map(zones_of, events))
    head = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//dra-spawner//EN"]
    if zone := one_line(parts.zone_name):
        zone = zone if zone in parts.zones else zone_name(zone)
        head.append(f"X-WR-TIMEZONE:{zone}")
        names |= {zone}
    written = ["\r\n".join(head), "\r\n"]
    for name in sorted(names & parts.zones.keys() - known_zones()):
        _refuse_zone(name, parts.zones[name])
        written.append(plain_zone(parts.zones[name]))
    for number, (each, plain) in enumerate(zip(events, times, strict=True)):
        if each.problem:
            raise _Unusable(each.problem)
        lines = ("BEGIN:VEVENT", "UID:1", "DTSTAMP:20000101T000000Z", f"SUMMARY:{number}", *plain.lines, "END:VEVENT")
        written += ("\r\n".join(lines), "\r\n")
    return "".join((*written, "END:VCALENDAR\r\n"))


def _forget_rules() -> None:
    """Forget what the library has computed: of a rule that was interrupted, it would give the first times only."""
    from ical import iter as rules

    getattr(rules, "_RECURRENCE_CACHE", {}).clear()


def _cause(error: Exception) -> str:
    """What a library says, as a part of a sentence."""
    # The text of an error of the operating system has the path of a file.
    text = error.strerror if isinstance(error, OSError) else str(error)
    return one_line(text or "", _LONGEST_CAUSE) or type(error).__name__


def _prepare() -> None:
    """Do once what takes longer than the share of an event; only a calendar that announces users needs it."""
    import ical.calendar_stream  # noqa: F401

    known_zones()


def _refuse_zone(name: str, text: str) -> None:
    """Refuse a zone whose rules take long to compute."""
    for line in text.splitlines():
        if line[:5].upper() == "RRULE" and (rule := line.upper().partition(":")[2]):
            parts = [each.partition("=")[::2] for each in rule.split(";")]
            if dict(parts).get("FREQ") != "YEARLY" or any(each.startswith(_BY_TIME) for each, _ in parts):
                raise _Unusable(f"is in the time zone {one_line(name)!r}, which changes more often than yearly")


def _refuse_times(event: Event, oldest: datetime) -> None:
    rule = event.rrule
    if event.dtstart is None:
        raise _Unusable("has no begin")
    if rule is None:
        return
    if rule.freq.value not in _SLOW_ENOUGH or rule.by_hour or rule.by_minute or rule.by_second:
        raise _Unusable("repeats more often than daily, which is not allowed")
    if (first := _date_of(event.dtstart)) < oldest.date():
        raise _Unusable(f"repeats since {first}; allowed are 20 years at most")


def _advanced(event: Event, begins: date) -> Event:
    """The event without the past days of a rule whose days are certain: the library computes them one by one."""
    rule, first = event.rrule, event.dtstart
    days = _DAYS_OF.get(rule.freq.value, 0) * rule.interval if rule is not None and rule.count is None else 0
    if first is None or days <= 0:
        return event
    past = (begins - _date_of(first)).days - max(event.computed_duration.days, 0) - _SPARE_PERIODS * days
    if past < days:
        return event
    skipped = timedelta(days=past // days * days)
    later = {"dtstart": first + skipped} | ({"dtend": event.dtend + skipped} if event.dtend is not None else {})
    return event.model_copy(update=later)


def _date_of(moment: date | datetime) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _announced(
    event: EventText, begins: datetime, ends: datetime, source: str, problems: list[str]
) -> Iterator[Occurrence]:
    """What the lines of an event announce for one time."""
    name, lines = event.title, event.demand_texts
    if len(lines) > _MAX_LINES:
        problems.append(f"event {name!r} announces users in {len(lines)} lines; the first {_MAX_LINES} count")
    for line in lines[:_MAX_LINES]:
        try:
            demand = read_demand_line(line)
            occurrence = Occurrence(
                name,
                demand.profile,
                begins,
                ends,
                demand.users,
                demand.counts,
                source=source,
                uid=event.uid[:_LONGEST_UID],
            )
        except ValueError as error:
            problems.append(f"event {name!r} on {begins:%Y-%m-%d %H:%M}: {error}")
            continue
        yield replace(occurrence, ramp=demand.ramp) if demand.ramp is not None else occurrence


#: The signal comes again while the code goes on, as code of others may have swallowed what the first one raised.
_AGAIN_SECONDS: Final = 0.05


class TooSlow(BaseException):
    """Raised in code that exceeds its time. No ``except Exception`` catches it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt Python code of the main thread after some seconds of processor time.

    Other threads get no signals: there, nothing is limited.

    Raises
    ------
    TooSlow
        If the code takes longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_over = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        # What a callback of a weak reference raises is lost; the signal comes again.
        if not is_over and (frame is None or frame.f_globals.get("__name__") != weakref.__name__):
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
