"""Where in a JSON text something stands; looked for only when there is something wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined]  # in the library, not in its stubs
from typing import Final

__all__ = ["PathPart", "Place", "find", "find_break", "line_of", "parse_path", "path_text", "skip_space"]

PathPart = str | int
"""Key of an object, or index in a list."""

Place = tuple[int, tuple[PathPart, ...]]
"""Position in the text, and the path that leads there."""

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PATH_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def line_of(text: str, position: int) -> int:
    """Line of a position, counted from one."""
    return text.count("\n", 0, position) + 1


def parse_path(path: str) -> tuple[PathPart, ...]:
    """Parts of a path as errors write it: ``spec.devices[3].capacity[memory]``."""
    parts: list[PathPart] = []
    for in_brackets, name in _PATH_PART.findall(path):
        parts.append(name or (int(in_brackets) if in_brackets.isdigit() else in_brackets))
    return tuple(parts)


def path_text(path: Sequence[PathPart]) -> str:
    """A path as errors write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def find(text: str, start: int, path: Sequence[PathPart]) -> int:
    """Position of a field of the value at ``start``, or of the innermost thing around it that is there."""
    position = skip_space(text, start)
    for part in path:
        inner = _step(text, position, part)
        if inner is None:
            break
        position = inner
    return position


def find_break(text: str, start: int) -> Place:
    """Where the value at ``start`` stops being JSON: the innermost field, and its position."""
    path: list[PathPart] = []
    position = skip_space(text, start)
    while True:
        inner = _first_broken(text, position)
        if inner is None:
            return position, tuple(path)
        part, position = inner
        path.append(part)


def skip_space(text: str, position: int) -> int:
    """Position of the next character that is no white space."""
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


def _members(text: str, position: int, path: list[Place]) -> None:
    """Append key (or index) and position of each member of the object or list at ``position``.

    Raises
    ------
    ValueError
        Where a member cannot be read; the last one appended is it, if it has begun.
    """
    closing = "}" if text[position] == "{" else "]"
    index = 0
    position = skip_space(text, position + 1)
    while text[position : position + 1] != closing:
        part: PathPart = index
        if closing == "}":
            if text[position : position + 1] != '"':
                raise ValueError("a key is missing")
            part, position = scanstring(text, position + 1, True)
            position = skip_space(text, position)
            if text[position : position + 1] != ":":
                raise ValueError("a colon is missing")
            position = skip_space(text, position + 1)
        path.append((position, (part,)))
        _, position = _DECODER.raw_decode(text, position)
        position = skip_space(text, position)
        if text[position : position + 1] == ",":
            position = skip_space(text, position + 1)
        elif text[position : position + 1] != closing:
            raise ValueError("a comma is missing")
        index += 1


def _step(text: str, position: int, part: PathPart) -> int | None:
    members = _readable_members(text, position)
    return next((at for at, (name,) in reversed(members) if name == part), None)


def _first_broken(text: str, position: int) -> tuple[PathPart, int] | None:
    """The member in which the object or list at ``position`` stops being JSON; None if it is not in a member."""
    if text[position : position + 1] not in ("{", "["):
        return None
    members = _readable_members(text, position)
    if not members:
        return None
    at, (part,) = members[-1]
    try:
        _DECODER.raw_decode(text, at)
    except ValueError:
        return part, at
    return None


def _readable_members(text: str, position: int) -> list[Place]:
    members: list[Place] = []
    if text[position : position + 1] in ("{", "["):
        # What can be read is enough.
        with suppress(ValueError):
            _members(text, position, members)
    return members
