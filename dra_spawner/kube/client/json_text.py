"""JSON as the API server sends it, read so that no object in an answer makes the others unreadable.

The API server stores some parts of objects as the text that a client sent: opaque parameters, ``status.devices[].data``
and ``metadata.managedFields[].fieldsV1``. That text may be nested 10,000 levels, and need not be UTF-8; ``json.loads``
refuses both, and with them the whole list or the watch event. `read_unusual` reads what ``json.loads`` refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_LEVELS: Final = 100
"""Levels of objects and lists that are kept; typed parts of Kubernetes' objects have fewer than 30."""
LEFT_OUT: Final = "(left out: nested too deeply)"
"""Replaces a deeper value."""
_MAX_DIGITS: Final = 640
"""Digits of a whole number that Python reads whatever its settings (``sys.int_info.str_digits_check_threshold``)."""

# Up to the next bracket that is in no string. Possessive: it never goes back, so its time is linear.
_BRACKET: Final = re.compile(r'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"[^"\[\]{}]*+)*+([\[\]{}"]|\Z)', re.DOTALL)


def read_unusual(data: bytes, levels: int = MAX_LEVELS) -> Any:
    """Read JSON of any depth and in any encoding, in time and memory that are linear in its length.

    Parameters
    ----------
    levels
        Values nested deeper are replaced by `LEFT_OUT`.

    Returns
    -------
    object
        As of ``json.loads``. Bytes that are not UTF-8 are U+FFFD; a whole number of more than 640 digits is a float.

    Raises
    ------
    ValueError
        If it is no JSON.
    """
    return json.loads(cut_levels(data.decode("utf-8", "replace"), levels), parse_int=_whole_number)


def cut_levels(text: str, levels: int = MAX_LEVELS) -> str:
    """The JSON text with `LEFT_OUT` in the place of every object and list that is nested deeper; not recursive."""
    kept: list[str] = []
    start = depth = 0
    for match in _BRACKET.finditer(text):
        bracket = match[1]
        if bracket in ("{", "["):
            depth += 1
            if depth == levels + 1:
                kept.append(text[start : match.end() - 1])
        elif bracket in ("}", "]"):
            if depth == levels + 1:
                kept.append(f'"{LEFT_OUT}"')
                start = match.end()
            depth -= 1
        else:
            break  # the end, or a string that does not end: `json.loads` says so
    if depth > levels:
        raise ValueError("the text ends within an object or a list")
    kept.append(text[start:])
    return "".join(kept)


def names_of_cut_objects(answer: Any) -> Iterator[str]:
    """Names of the objects in a list, a watch event or an object of which `read_unusual` left something out."""
    if not isinstance(answer, Mapping):
        return
    items = answer.get("items")
    for obj in items if isinstance(items, list) else (answer.get("object", answer),):
        if _is_cut(obj):
            metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
            metadata = metadata if isinstance(metadata, Mapping) else {}
            yield "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key)) or "(no name)"


def _is_cut(value: Any) -> bool:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if each == LEFT_OUT:
                return True
        elif isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each
    return False


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)
