"""The text of an iCal calendar in a file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

from dra_spawner.scale_ahead.calendars.ical_text import MAX_BYTES, CalendarUnreadable

_FOLD: Final = re.compile(rb"(?:\r\n|\r|\n)[ \t]")


async def read_file(path: str) -> str:
    """Text of a calendar in a file.

    Raises
    ------
    OSError, CalendarUnreadable
        If it cannot be read, or is too large.
    """
    return text_of(await asyncio.to_thread(_bytes_of, Path(path)))


def text_of(content: bytes) -> str:
    """Text of a calendar, of which one byte more than allowed may have been read.

    Raises
    ------
    CalendarUnreadable
        If it is too large.
    """
    if len(content) > MAX_BYTES:
        raise CalendarUnreadable(f"it has more than {MAX_BYTES} bytes")
    # Lines are folded after 75 bytes, which may be within a character.
    return _FOLD.sub(b"", content).decode("utf-8-sig", "replace")


def _bytes_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
