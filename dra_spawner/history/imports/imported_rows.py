"""Rows of imports: launches and bad rows, and the checks of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final

from dra_spawner.history.records import Launch

_LONGEST_QUOTED: Final = 80
_STEPS: Final = ("asked", "bound", "running", "ended")
#: The end of the year 9999; a larger number is not in seconds.
_MAX_SECONDS: Final = 253402300799


class SourceError(Exception):
    """Raised if the source of an import cannot be read; the message is a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is not a valid launch."""

    location: str
    """Position in the source, for example ``line 12``."""

    problem: str
    """The found and the allowed value."""

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}"


Rows = Callable[[], Iterator[Launch | BadRow]]
"""Function that reads a source from its beginning. It is called twice: to check all rows, and to write them."""


def quoted(value: object) -> str:
    """A value for a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTED else f"{text[: _LONGEST_QUOTED - 3]}..."


def parsed_time(value: str, zone: tzinfo | None = None) -> datetime:
    """A time: ISO 8601 with its zone, or seconds since 1970.

    Parameters
    ----------
    zone
        Zone of times without one; None refuses these times.

    Raises
    ------
    ValueError
        If it is not a time; with the found and the allowed value.
    """
    allowed = "seconds since 1970, or ISO 8601 with its zone, like 2026-03-02T09:00:00Z"
    try:
        found = _of_seconds(value) or datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(f"found {quoted(value)}; allowed: {allowed}") from None
    if found.tzinfo is None:
        if zone is None:
            raise ValueError(f"found {quoted(value)}; allowed: {allowed} (--time-zone sets the zone of other times)")
        found = found.replace(tzinfo=zone)
    try:
        return found.astimezone(UTC)
    except OverflowError:  # its time in UTC is before the year 1, or after the year 9999
        raise ValueError(f"found {quoted(value)}; allowed: {allowed}") from None


def _of_seconds(value: str) -> datetime | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    if not math.isfinite(seconds) or not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError(value)
    return datetime.fromtimestamp(seconds, UTC)


def misordered(launch: Launch, now: datetime) -> str:
    """The problem of a launch's times if one is in the future, or earlier than the one before; else empty."""
    known: list[tuple[str, datetime]] = []
    for name in _STEPS:
        if (moment := getattr(launch, name)) is not None:
            if moment > now + timedelta(days=1):
                return f"{name}: found {moment.isoformat()}; allowed: a time in the past"
            known.append((name, moment))
    for (before, earlier), (after, later) in pairwise(known):
        if later < earlier:
            seconds = (earlier - later).total_seconds()
            return f"{after}: found a time {seconds:g} s before {before}; allowed: {before} or later"
    return ""
