"""Minutes as whole numbers, counted from 1970-01-01T00:00Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

MINUTES_A_DAY: Final = 1440
MINUTES_A_WEEK: Final = 10_080
_MINUTE: Final = timedelta(minutes=1)


def minute_of(moment: datetime) -> int:
    """The minute that a moment is in.

    Raises
    ------
    ValueError
        If the moment has no time zone.
    """
    if moment.utcoffset() is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return int(moment.timestamp() // 60)


def datetime_of(minute: int) -> datetime:
    """The begin of a minute, in UTC."""
    return datetime.fromtimestamp(minute * 60, UTC)


def whole_minutes(duration: timedelta) -> int:
    """A duration in minutes, rounded up."""
    return -(-duration // _MINUTE)
