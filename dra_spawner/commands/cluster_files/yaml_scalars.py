"""Plain scalars of YAML as kubectl reads them: what JSON has, no dates, no numbers of base 60.

kubectl reads a scalar as an integer where Go's ``strconv.ParseInt`` with base 0 does, else as a number of YAML's form,
and writes a whole number without a point to the API server (sigs.k8s.io/yaml). So ``08``, ``0o1`` and ``12e5`` are
numbers, and ``y`` is true.
"""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = ["TAGS", "explicit_value", "plain_value"]

_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS: Final = {
    spelling: value
    for value, names in ((True, ("y", "true", "yes", "on")), (False, ("n", "false", "no", "off")))
    for name in names
    for spelling in (name, name.capitalize(), name.upper())
}
_INTEGER: Final = re.compile(r"[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
_FLOAT: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1
_WHOLE: Final = 1e21
"""Go writes whole numbers below this one without an exponent."""
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
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        number = _integer(plain, longest_number)
        return number if _SMALLEST <= number <= _LARGEST else _float(plain, longest_number)
    if _FLOAT.fullmatch(plain):
        return _float(plain, longest_number)
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
    negative, digits = text.startswith("-"), text.lstrip("+-")
    base = {"0b": 2, "0o": 8, "0x": 16}.get(digits[:2].lower())
    if base is not None:
        digits = digits[2:]
    else:
        base = 8 if digits[0] == "0" else 10
    return -int(digits, base) if negative else int(digits, base)


def _float(text: str, longest: int) -> int | float:
    _check_length(text, longest)
    # Of the texts that match the pattern, only infinity and NaN have an n.
    number = math.nan if "n" in text.lower() else float(text)
    if not math.isfinite(number):
        raise ValueError(f"is {text}, which is no value of JSON")
    return int(number) if number.is_integer() and abs(number) < _WHOLE else number


def _check_length(text: str, longest: int) -> None:
    if len(text) > longest:
        raise ValueError(f"is a number of {len(text):,} characters, at most {longest} are allowed")
