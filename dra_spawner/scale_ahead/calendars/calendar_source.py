"""An iCal calendar by address or file, which is read periodically.

While it cannot be read, its last good copy counts, until the copy is older than `longest_age`. After an hour without a
read the source is stale, which is reported as a problem.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, Protocol

import aiohttp

from dra_spawner.scale_ahead.calendars.calendar_download import TIMEOUT_SECONDS, LocationReader, read_location
from dra_spawner.scale_ahead.calendars.ical_events import CalendarReading, CalendarUnreadable
from dra_spawner.scale_ahead.calendars.ical_process import read_in_process
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence

__all__ = ["CalendarSource", "read_location"]

log = logging.getLogger(__name__)

#: Time without a successful read after which a calendar is stale.
_STALE_AFTER: Final = timedelta(hours=1)
#: Time after which the service no longer waits for the first successful read.
_GIVEN_UP_AFTER: Final = timedelta(days=1)
#: Time that is computed in advance, so that a calendar without a change is computed once in it.
_IN_ADVANCE: Final = timedelta(days=1)
#: Time after which a text that could not be computed is tried again.
_TRIED_AGAIN_AFTER: Final = timedelta(minutes=15)
_PAST: Final = timedelta(days=1)
#: Properties that servers write anew into each answer.
_OF_ANSWER: Final = re.compile(r"^(?:DTSTAMP|X-PUBLISHED-TTL)[:;][^\r\n]*", re.MULTILINE)


class _Parse(Protocol):
    async def __call__(
        self, text: str, begins: datetime, ends: datetime, *, source: str, zone: tzinfo
    ) -> CalendarReading: ...


@dataclass(frozen=True, slots=True)
class _Copy:
    """A good copy of a calendar, and what was computed from it."""

    text: str
    essence: bytes
    begins: datetime
    ends: datetime
    reading: CalendarReading


@dataclass(frozen=True, slots=True)
class _Refused:
    """A text that could not be computed, and the time until which it is not tried again."""

    essence: bytes
    cause: str
    until: datetime


class CalendarSource:
    """An iCal calendar and its last good copy.

    Parameters
    ----------
    name
        Name for messages. The address is in no message, as it may have a secret.
    location
        Address or path, as for `read_location`.
    zone
        Time zone of events without one.
    longest_age
        Age until which the last good copy counts.
    ahead
        Time ahead for which occurrences are computed.
    read
        Returns the text of a location.
    parse
        Returns what is in a text, as `read_in_process`.

    Attributes
    ----------
    read_at
        Time of the last good copy; None without one.
    problems
        Problems of the calendar and its events, as sentences without their full stop.
    """

    def __init__(
        self,
        name: str,
        location: str,
        zone: tzinfo,
        *,
        longest_age: timedelta = timedelta(days=7),
        ahead: timedelta = timedelta(days=8),
        read: Callable[[str], Awaitable[str]] | None = None,
        parse: _Parse = read_in_process,
    ) -> None:
        self.name = name
        self._location = location
        self._zone = zone
        self._longest_age = longest_age
        self._ahead = ahead
        self._read = read or LocationReader()
        self._parse = parse
        self._copy: _Copy | None = None
        self._refused: _Refused | None = None
        self._tried_since: datetime | None = None
        self._failure = ""
        self.read_at: datetime | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        failure = (f"calendar {self.name} cannot be read: {self._failure}",) if self._failure else ()
        found = self._copy.reading.problems if self._copy is not None else ()
        return (*failure, *(f"calendar {self.name}: {each}" for each in found))

    async def refresh(self, now: datetime, turn: contextlib.AbstractAsyncContextManager[object] | None = None) -> None:
        """Read the calendar. After a failure the last good copy stays, and `problems` has the cause.

        Parameters
        ----------
        turn
            Entered while a text is computed, so that calendars share memory and processors.
        """
        turn = turn or contextlib.nullcontext()
        self._tried_since = self._tried_since or now
        try:
            text = await self._read(self._location)
        except Exception as error:  # it is not logged, as its message may have the address
            self._failure = _sentence(error)
        else:
            self._failure = await self._take(text, now, turn)
        if not self._failure:
            self.read_at = now
            return
        if self.read_at is not None and now - self.read_at > self._longest_age:
            self._copy = None
        if self._copy is not None:
            await self._take(self._copy.text, now, turn)

    async def _take(self, text: str, now: datetime, turn: contextlib.AbstractAsyncContextManager[object]) -> str:
        """Make a text the present copy; returns why it cannot be, or nothing."""
        try:
            self._copy = await self._computed(text, now, turn)
        except (OSError, ValueError) as error:
            return _sentence(error)
        except Exception as error:  # a defect with one calendar must not end the others
            log.exception("Calendar %s cannot be computed.", self.name)
            return type(error).__name__
        return ""

    async def _computed(self, text: str, now: datetime, turn: contextlib.AbstractAsyncContextManager[object]) -> _Copy:
        """A copy with the occurrences in a text. They are computed only if it is another text, or time has passed.

        Raises
        ------
        ValueError, OSError
            As of `read_in_process`.
        """
        essence, copy, refused = await asyncio.to_thread(_essence, text), self._copy, self._refused
        if (
            copy is not None
            and copy.essence == essence
            and copy.begins <= now - _PAST
            and now + self._ahead <= copy.ends
        ):
            return copy
        if refused is not None and refused.essence == essence and now < refused.until:
            raise CalendarUnreadable(refused.cause)
        begins, ends = now - _PAST, now + self._ahead + _IN_ADVANCE
        async with turn:
            try:
                reading = await self._parse(text, begins, ends, source=self.name, zone=self._zone)
            except CalendarUnreadable as error:
                self._refused = _Refused(essence, str(error), now + _TRIED_AGAIN_AFTER)
                raise
        return _Copy(text, essence, begins, ends, reading)

    def occurrences(self) -> tuple[Occurrence, ...]:
        """Occurrences from a day ago until `ahead` and perhaps later, in the order of their begin."""
        return self._copy.reading.occurrences if self._copy is not None else ()

    def age(self, now: datetime) -> timedelta | None:
        """Age of the last good copy; None without one."""
        return None if self.read_at is None else now - self.read_at

    def is_stale(self, now: datetime) -> bool:
        """Whether the calendar could not be read for an hour."""
        since = self.read_at or self._tried_since
        return since is not None and now - since > _STALE_AFTER

    def is_given_up(self, now: datetime) -> bool:
        """Whether the first read has failed for a day."""
        return self.read_at is None and self._tried_since is not None and now - self._tried_since > _GIVEN_UP_AFTER


def _sentence(error: Exception) -> str:
    """The cause of an error, without the address."""
    match error:
        case aiohttp.ClientResponseError():
            return f"its server answers with status {error.status}"
        case CalendarUnreadable():
            return str(error)
        case TimeoutError():
            return f"no answer within {TIMEOUT_SECONDS:g} s"
        case OSError() if error.strerror:
            return error.strerror
    return type(error).__name__


def _essence(text: str) -> bytes:
    """A hash of what counts in a text."""
    return hashlib.sha256(_OF_ANSWER.sub("", text).encode(errors="replace")).digest()
