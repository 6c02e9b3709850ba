"""The strings extension (version 2) and Kubernetes' regular-expression functions."""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.library import cost as costs
from dra_spawner.dra.cel.library.formatting import GO_ESCAPES, format_string
from dra_spawner.dra.cel.library.functions import overload
from dra_spawner.dra.cel.library.regular_expressions import find_all, search
from dra_spawner.dra.cel.values import Value

__all__: list[str] = []

# What Go's strings.TrimSpace takes away; Python's strip() knows four more.
_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED: Final = str.maketrans(GO_ESCAPES)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


@overload("string . charAt(int) -> string")
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


@overload("string . indexOf(string) -> int", "string . indexOf(string, int) -> int", cost=costs.deep_traversal)
def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


@overload("string . lastIndexOf(string) -> int", cost=costs.deep_traversal)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@overload("string . lastIndexOf(string, int) -> int", cost=costs.deep_traversal)
def _last_index_of_offset(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


@overload("string . lowerAscii() -> string", cost=costs.traversal)
def _lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


@overload("string . upperAscii() -> string", cost=costs.traversal)
def _upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


@overload(
    "string . replace(string, string) -> string",
    "string . replace(string, string, int) -> string",
    cost=costs.double_traversal,
)
def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, min(limit, len(text) + 1))


@overload(
    "string . split(string) -> list(string)",
    "string . split(string, int) -> list(string)",
    cost=costs.double_traversal,
)
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, -1 if limit < 0 else min(limit - 1, len(text)))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


@overload("string . substring(int) -> string", cost=costs.traversal)
def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


@overload("string . substring(int, int) -> string", cost=costs.traversal)
def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


@overload("string . trim() -> string", cost=costs.traversal)
def _trim(text: str) -> str:
    return text.strip(_SPACES)


@overload("strings.quote(string) -> string", cost=costs.traversal)
def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


@overload("list(string) . join() -> string", "list(string) . join(string) -> string", cost=costs.joining)
def _join(values: list[Value], separator: str = "") -> str:
    for value in values:
        if type(value) is not str:
            raise EvaluationError("join: invalid input")
    return separator.join(values)


@overload("string . format(list(dyn)) -> string", cost=costs.traversal)
def _format(text: str, values: list[Value]) -> str:
    return format_string(text, values)


@overload("string . find(string) -> string", cost=costs.regex)
def _find(text: str, pattern: str) -> str:
    match = search(pattern, text)
    return "" if match is None else str(match.group())


@overload("string . findAll(string) -> list(string)", "string . findAll(string, int) -> list(string)", cost=costs.regex)
def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return find_all(pattern, text, limit)
