"""Rows of imports: launches, or what is wrong with a row, named so that it can be found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Final

from dra_spawner.history.records import Launch

__all__ = ["BadRow", "Rows", "SourceError", "misordered", "parsed_time", "quoted"]

_LONGEST_QUOTED: Final = 80
_STEPS: Final = ("asked", "bound", "running", "ended")
#: Seconds since 1970 that are no year of four digits are in another unit.
_MOST_SECONDS: Final = 253402300799


class SourceError(Exception):
    """A source of an import cannot be read at all; the message is a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that is no launch."""

    place: str
    """Where, for example ``line 12``."""
    problem: str
    """What was found, and what is allowed."""

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


Rows = Callable[[], Iterator[Launch | BadRow]]
"""Reads a source from its beginning. It is called twice: to check all rows, and to write them."""


def quoted(value: object) -> str:
    """A value as it may stand in a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTED else f"{text[: _LONGEST_QUOTED - 3]}..."


def parsed_time(value: str, zone: tzinfo | None = None) -> datetime:
    """A time: ISO 8601 with its zone, or seconds since 1970.

    Parameters
    ----------
    zone
        Of times that name none; None refuses them.

    Raises
    ------
    ValueError
        With what was found and what is allowed.
    """
    allowed = "seconds since 1970, or ISO 8601 with its zone, like 2026-03-02T09:00:00Z"
    try:
        found = _of_seconds(value) or datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(f"found {quoted(value)}; allowed: {allowed}") from None
    if found.tzinfo is None:
        if zone is None:
            raise ValueError(f"found {quoted(value)}; allowed: {allowed} (--time-zone says the zone of all others)")
        found = found.replace(tzinfo=zone)
    return found.astimezone(UTC)


def _of_seconds(value: str) -> datetime | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    if not math.isfinite(seconds) or not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(value)
    return datetime.fromtimestamp(seconds, UTC)


def misordered(launch: Launch, now: datetime) -> str:
    """What is wrong with the order of a launch's times; empty if nothing is."""
    if launch.asked > now + timedelta(days=1):
        return f"asked: found {launch.asked.isoformat()}; allowed: a time that is over"
    known: list[tuple[str, datetime]] = []
    for name in _STEPS:
        if (moment := getattr(launch, name)) is not None:
            known.append((name, moment))
    for (before, earlier), (after, later) in pairwise(known):
        if later < earlier:
            seconds = (earlier - later).total_seconds()
            return f"{after}: found a time {seconds:g} s before {before}; allowed: {before} or later"
    return ""
