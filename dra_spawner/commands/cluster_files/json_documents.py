"""The JSON values of a text: one, or several in a row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Final

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.cluster_files.json_places import (
    JsonPlaces,
    LineCounter,
    PathPart,
    find_place,
    path_text,
    skip_space,
)
from dra_spawner.commands.cluster_files.limits import Limits

_SURROGATES: Final = ("\\ud", "\\uD")
"""Beginning of an escape for half of a character (a surrogate)."""


class _RepeatedKey(ValueError):
    """Raised where an object has a key twice."""


def load(file: str, text: str, limits: Limits) -> Iterator[tuple[object, JsonPlaces]]:
    """Each value, with the lines of its fields.

    Raises
    ------
    InputError
        Where the text is no JSON, or exceeds a limit.
    """
    decoder = _decoder(limits)
    lines = LineCounter(text)
    may_have_surrogates = any(start in text for start in _SURROGATES)
    position = skip_space(text, 0)
    while position < len(text):
        start = position
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            raise _refusal(file, text, start, error, limits) from None
        if _is_too_deep(value, limits.levels):
            raise _refusal(file, text, start, RecursionError(), limits)
        places = JsonPlaces(text, start, lines)
        path = _surrogate_path(value) if may_have_surrogates else None
        if path is not None:
            problem = "has half of a character (a lone surrogate), which is no Unicode text"
            raise InputError(file, places.line_of(path), path_text(path), problem)
        yield value, places
        position = skip_space(text, position)


def _decoder(limits: Limits) -> json.JSONDecoder:
    def integer(text: str) -> int:
        _check_length(text, limits)
        return int(text)

    def number(text: str) -> float:
        _check_length(text, limits)
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{text} is larger than any number")
        return value

    return json.JSONDecoder(
        parse_constant=_refuse_constant, parse_int=integer, parse_float=number, object_pairs_hook=_object
    )


def _check_length(text: str, limits: Limits) -> None:
    if len(text) > limits.number_characters:
        raise ValueError(f"a number has {len(text):,} characters, at most {limits.number_characters} are allowed")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def _object(members: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(members)
    if len(value) != len(members):
        raise _RepeatedKey
    return value


def _refusal(file: str, text: str, start: int, error: Exception, limits: Limits) -> InputError:
    lines = LineCounter(text)
    if isinstance(error, RecursionError):
        at, path = find_place(text, start, levels=limits.levels)
        problem = f"is nested too deeply; at most {limits.levels} levels of mappings and lists are allowed"
        return InputError(file, lines.line_of(at), path_text(path), problem)
    if isinstance(error, _RepeatedKey):
        at, path = find_place(text, start, repeated_key=True)
        return InputError(file, lines.line_of(at), path_text(path), "appears twice; a key may appear once")
    if isinstance(error, json.JSONDecodeError):
        at = min(error.pos, len(text.rstrip()))
        path = find_place(text, start, until=error.pos)[1]
        is_cut_off = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        problem = "the text ends in the middle of it" if is_cut_off else f"is not JSON: {error.msg}"
        return InputError(file, lines.line_of(at), path_text(path), problem)
    return InputError(file, lines.line_of(start), "", f"is not JSON: {error}")


def _is_too_deep(value: object, levels: int) -> bool:
    """Whether mappings and lists are nested deeper than the limit; checked level by level."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _surrogate_path(value: object) -> tuple[PathPart, ...] | None:
    """Path of a text that is no Unicode; None if there is none."""
    pending: list[tuple[tuple[PathPart, ...], object]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict):
            if not all(map(_is_unicode, item)):
                return path
            pending.extend(((*path, key), inner) for key, inner in item.items())
        elif isinstance(item, list):
            pending.extend(((*path, index), inner) for index, inner in enumerate(item))
        elif isinstance(item, str) and not _is_unicode(item):
            return path
    return None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
