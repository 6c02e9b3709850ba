"""Times as values of labels: seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_of(seconds: str) -> datetime | None:
    """The time in a label; None if it is invalid."""
    if not seconds.isascii() or not seconds.isdigit() or len(seconds) > 11:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)


def label_of(moment: datetime) -> str:
    """A time as a label's value."""
    return str(int(moment.timestamp()))
