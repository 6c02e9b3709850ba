"""An iCal calendar by address or file, which is read periodically.

While it cannot be read, its last good copy counts, until the copy is older than `longest_age`. After an hour without a
read the source is stale, which is reported as a problem.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final

import aiohttp

from dra_spawner.calendars.ical_events import MAX_BYTES, CalendarReading, CalendarUnreadable, read_ical
from dra_spawner.calendars.occurrences import Occurrence

__all__ = ["CalendarSource", "read_location"]

#: Time without a successful read after which a calendar is stale.
_STALE_AFTER: Final = timedelta(hours=1)
#: Time after which the service no longer waits for the first successful read.
_GIVEN_UP_AFTER: Final = timedelta(days=1)
_TIMEOUT_SECONDS: Final = 30.0
_EMPTY: Final = CalendarReading((), ())


async def read_location(location: str) -> str:
    """Text of a calendar.

    Parameters
    ----------
    location
        An ``https://`` or ``http://`` address, or the path of a file.

    Raises
    ------
    OSError, aiohttp.ClientError, TimeoutError, ValueError
        If it cannot be read, or is too large.
    """
    if not location.startswith(("https://", "http://")):
        content = await asyncio.to_thread(_file, Path(location))
    else:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(location) as answer:
            answer.raise_for_status()
            content = await answer.content.read(MAX_BYTES + 1)
            while len(content) <= MAX_BYTES and (more := await answer.content.read(MAX_BYTES + 1 - len(content))):
                content += more
    if len(content) > MAX_BYTES:
        raise CalendarUnreadable(f"it has more than {MAX_BYTES} bytes")
    return content.decode("utf-8-sig", "replace")


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


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
        read: Callable[[str], Awaitable[str]] = read_location,
    ) -> None:
        self.name = name
        self._location = location
        self._zone = zone
        self._longest_age = longest_age
        self._ahead = ahead
        self._read = read
        self._text = ""
        self._reading = _EMPTY
        self._tried_since: datetime | None = None
        self._failure = ""
        self.read_at: datetime | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        failure = (f"calendar {self.name} cannot be read: {self._failure}",) if self._failure else ()
        return (*failure, *(f"calendar {self.name}: {each}" for each in self._reading.problems))

    async def refresh(self, now: datetime) -> None:
        """Read the calendar. After a failure the last good copy stays, and `problems` has the cause."""
        self._tried_since = self._tried_since or now
        text, failure = self._text, ""
        try:
            text = await self._read(self._location)
            reading = await self._occurrences_in(text, now)
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            failure = _sentence(error)
            if self.read_at is not None and now - self.read_at > self._longest_age:
                self._text = ""
            reading = await self._occurrences_in(self._text, now) if self._text else _EMPTY
        else:
            self._text, self.read_at = text, now
        self._failure, self._reading = failure, reading

    async def _occurrences_in(self, text: str, now: datetime) -> CalendarReading:
        begins = now - timedelta(days=1)
        return await asyncio.to_thread(read_ical, text, begins, now + self._ahead, source=self.name, zone=self._zone)

    def occurrences(self) -> tuple[Occurrence, ...]:
        """Occurrences from a day ago until `ahead`, in the order of their begin."""
        return self._reading.occurrences

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
            return f"no answer within {_TIMEOUT_SECONDS:g} s"
        case OSError() if error.strerror:
            return error.strerror
    return type(error).__name__
