"""Lines of a text of which only a limited part is taken: a small compressed file may have any number of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TextIO

MAX_LINE_CHARACTERS: Final = 2**20
MAX_CHARACTERS: Final = 2 * 2**30
MAX_LINES: Final = 10_000_000


class TooManyLines(ValueError):
    """Raised where a limit is exceeded; the message names the found and the allowed value."""


def limited_lines(
    stream: TextIO,
    *,
    max_line: int = MAX_LINE_CHARACTERS,
    max_characters: int = MAX_CHARACTERS,
    max_lines: int = MAX_LINES,
) -> Iterator[str]:
    """Lines of a stream, with their ends.

    Raises
    ------
    TooManyLines
        If a line is too long, or there are too many lines or characters.
    """
    characters = number = 0
    while line := stream.readline(max_line + 1):
        number += 1
        characters += len(line)
        if len(line) > max_line:
            raise TooManyLines(f"line {number}: has more than {max_line:,} characters, which is the limit of a line")
        if characters > max_characters:
            raise TooManyLines(
                f"line {number}: the text has more than {max_characters:,} characters, which is the limit"
            )
        if number > max_lines:
            raise TooManyLines(f"line {number}: the text has more than {max_lines:,} lines, which is the limit")
        yield line
