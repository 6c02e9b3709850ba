"""Plain scalars of YAML as Kubernetes reads them: what JSON has, no dates, no numbers of base 60."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["TAGS", "explicit_value", "plain_value"]

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS: Final = {
    spelling: value
    for value, names in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for name in names
    for spelling in (name, name.capitalize(), name.upper())
}
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_PREFIX: Final = "tag:yaml.org,2002:"

TAGS: Final = {f"{_PREFIX}{name}": name for name in ("str", "int", "float", "bool", "null", "map", "seq")}
"""Allowed tags, and the kind of value of each."""


def plain_value(text: str, longest_number: int) -> str | int | float | bool | None:
    """Value of a scalar without quotes.

    Raises
    ------
    ValueError
        With the end of a sentence, if it is a number that JSON or Kubernetes lacks.
    """
    if text in _NULL:
        return None
    if text[0] not in _NUMBER_STARTS:
        return _BOOLEANS.get(text, text)
    if _INTEGER.fullmatch(text):
        return _integer(text, longest_number)
    if _FLOAT.fullmatch(text):
        return _float(text, longest_number)
    return text


def explicit_value(kind: str, text: str, longest_number: int) -> str | int | float | bool | None:
    """Value of a scalar with a tag.

    Raises
    ------
    ValueError
        If it is no value of this kind.
    """
    value: str | int | float | bool | None = text if kind == "str" else plain_value(text, longest_number)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    types = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None)}
    if type(value) is not types.get(kind):
        raise ValueError(f"is not what its tag !!{kind} says")
    return value


def _integer(text: str, longest: int) -> int:
    _check_length(text, longest)
    digits = text.replace("_", "")
    negative, digits = digits.startswith("-"), digits.lstrip("+-")
    base = {"0b": 2, "0x": 16}.get(digits[:2], 8 if digits[:1] == "0" else 10)
    digits = digits[2:] if base in (2, 16) else digits
    if not digits:
        raise ValueError("has a number without digits")
    return -int(digits, base) if negative else int(digits, base)


def _float(text: str, longest: int) -> float:
    _check_length(text, longest)
    # Of the texts that match the pattern, only infinity and NaN have an n.
    number = math.nan if "n" in text.lower() else float(text.replace("_", ""))
    if not math.isfinite(number):
        raise ValueError(f"is {text}, which is no value of JSON")
    return number


def _check_length(text: str, longest: int) -> None:
    if len(text) > longest:
        raise ValueError(f"is a number of {len(text):,} characters, at most {longest} are allowed")
