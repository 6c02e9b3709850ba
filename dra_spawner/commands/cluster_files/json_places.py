"""Positions of values in a JSON text; computed only for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]  # in the library, not in its stubs
from typing import Final

PathPart = str | int
"""Key of an object, or index in a list."""

Place = tuple[int, tuple[PathPart, ...]]
"""Position in the text, and the path that leads there."""

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PATH_PART: Final = re.compile(r"\[([^\]]*)\]|([^.\[]+)")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}:,]|[^\s\[\]{}:,"]++', re.DOTALL)
_REMEMBERED: Final = 256
"""Maximum of objects and lists whose members' positions are cached, more than any path has."""


class LineCounter:
    """Line numbers of positions in a text; ascending positions cost one pass in all."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line = 1

    def line_of(self, position: int) -> int:
        """Line of a position, counted from one."""
        if position < self._position:
            self._position, self._line = 0, 1
        self._line += self._text.count("\n", self._position, position)
        self._position = position
        return self._line


class JsonPlaces:
    """Lines of the fields of one JSON value."""

    def __init__(self, text: str, start: int, lines: LineCounter) -> None:
        self._text = text
        self._start = start
        self._lines = lines
        # A list of thousands of wrong objects is scanned once, not once for each.
        self._members = lru_cache(_REMEMBERED)(self._read_members)

    def line_of(self, path: Sequence[PathPart]) -> int:
        """Line of a field, or of the innermost existing field around it."""
        position = skip_space(self._text, self._start)
        for part in path:
            inner = self._members(position).get(part)
            if inner is None:
                break
            position = inner
        return self._lines.line_of(position)

    def _read_members(self, position: int) -> Mapping[PathPart, int]:
        members: dict[PathPart, int] = {}
        if self._text[position : position + 1] in ("{", "["):
            # The readable part is enough.
            with suppress(ValueError, RecursionError):
                _read_members(self._text, position, members)
        return members


def parse_path(path: str) -> tuple[PathPart, ...]:
    """Parts of a path as errors write it: ``spec.devices[3].capacity[memory]``."""
    parts: list[PathPart] = []
    for in_brackets, name in _PATH_PART.findall(path):
        parts.append(name or (int(in_brackets) if in_brackets.isdecimal() and len(in_brackets) < 20 else in_brackets))
    return tuple(parts)


def path_text(path: Sequence[PathPart]) -> str:
    """A path as errors write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def skip_space(text: str, position: int) -> int:
    """Position of the next character that is no white space."""
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


class _Open:
    """An object or list that is still open."""

    __slots__ = ("after_colon", "index", "keys", "part")

    def __init__(self, is_object: bool) -> None:
        self.keys: set[str] | None = set() if is_object else None
        self.after_colon = False
        self.index = 0
        self.part: PathPart | None = None if is_object else 0

    def read(self, sign: str) -> bool:
        """Consume a token that opens no object or list; return whether it repeats a key."""
        if sign == ",":
            self.after_colon = False
            self.index += 1
            self.part = self.index if self.keys is None else None
        elif sign == ":":
            self.after_colon = True
        elif self.keys is None or self.after_colon:
            self.part = None
        elif sign[0] == '"':
            self.part = key = _text_of(sign)
            is_repeated = key in self.keys
            self.keys.add(key)
            return is_repeated
        return False


def find_place(
    text: str, start: int, *, until: int | None = None, levels: int | None = None, repeated_key: bool = False
) -> Place:
    """Find the place of a problem in a value, which may be broken anywhere; without recursion.

    Parameters
    ----------
    until
        Stop at this position,
    levels
        or at an object or list inside more than this number of others,
    repeated_key
        or at a key that its object has already.
    """
    open_values: list[_Open] = []
    at = start
    for match in _TOKEN.finditer(text, start):
        sign, at = match[0], match.start()
        if until is not None and at >= until:
            break
        if sign in ("{", "["):
            if levels is not None and len(open_values) == levels:
                break
            open_values.append(_Open(sign == "{"))
            continue
        if sign in ("}", "]"):
            del open_values[-1:]
            if open_values:
                open_values[-1].part = None
        elif open_values and open_values[-1].read(sign) and repeated_key:
            break
    return at, tuple(each.part for each in open_values if each.part is not None)


def _text_of(sign: str) -> str:
    try:
        return str(scanstring(sign, 1, False)[0])
    except ValueError:
        return sign


def _read_members(text: str, position: int, members: dict[PathPart, int]) -> None:
    """Note key (or index) and position of each member of the object or list at ``position``.

    Raises
    ------
    ValueError
        Where a member cannot be read.
    """
    closing = "}" if text[position] == "{" else "]"
    index = 0
    position = skip_space(text, position + 1)
    while text[position : position + 1] != closing:
        part: PathPart = index
        if closing == "}":
            part, position = scanstring(text, position + 1, True)
            position = skip_space(text, skip_space(text, position) + 1)
        members[part] = position
        _, position = _DECODER.raw_decode(text, position)
        position = skip_space(text, position)
        if text[position : position + 1] == ",":
            position = skip_space(text, position + 1)
        index += 1
