"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from dra_spawner.commands.asking.service_client import printable

_MAX_WIDTH = 60


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows below a head, in columns that are as wide as their texts; the last column is not cut."""
    texts = [list(head), *([printable(value) for value in row] for row in rows)]
    texts = [[*(_cut(each) for each in row[:-1]), row[-1]] for row in texts]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in texts)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_WIDTH else f"{text[: _MAX_WIDTH - 1]}…"


def moment(text: str | None) -> str:
    """A time of the API for people, such as ``2026-11-24 17:00 UTC``; what is no time stays as it is."""
    try:
        time = datetime.fromisoformat(text or "")
        return text or "" if time.tzinfo is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M %Z}"
    except (ValueError, OverflowError):
        return text or ""
