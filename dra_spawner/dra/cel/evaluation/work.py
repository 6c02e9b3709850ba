"""How much a call will do and build, known before it is made: values to look at, and bytes of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from dra_spawner.dra.cel.evaluation.budget import ELEMENT_BYTES, bytes_of, extent
from dra_spawner.dra.cel.library.formatting import format_bytes
from dra_spawner.dra.cel.values import OptionalValue, Value


class Work(NamedTuple):
    """What a call needs."""

    values: int
    size: int = 0


WorkFunction: TypeAlias = Callable[[Sequence[Value]], Work]

NO_WORK: Final = Work(0)
_CONTAINERS: Final = (list, dict, OptionalValue)


def work_of(function: str, args: Sequence[Value]) -> Work:
    """What a call of the function with these values needs."""
    known = _WORK.get(function)
    return NO_WORK if known is None else known(args)


def _values(value: Value) -> int:
    return extent(value)[0] if isinstance(value, _CONTAINERS) else 1


def _comparison(args: Sequence[Value]) -> Work:
    left, right = args
    if not isinstance(left, _CONTAINERS) or type(left) is not type(right):
        return NO_WORK
    if type(left) is not OptionalValue and len(args[0]) != len(args[1]):
        return NO_WORK
    return Work(min(_values(left), _values(right)))


def _membership(args: Sequence[Value]) -> Work:
    needle, container = args
    if not isinstance(container, list):
        return NO_WORK
    return Work(len(container) * _values(needle))


def _search(args: Sequence[Value]) -> Work:
    if not isinstance(args[0], list):
        return NO_WORK
    return Work(_values(args[0]))


def _includes(args: Sequence[Value]) -> Work:
    return Work(_values(args[0]) if isinstance(args[0], list) else 1)


def _self_comparison(args: Sequence[Value]) -> Work:
    # Most elements are simple, and comparing those is a tenth of a step.
    return Work(len(args[0]) * (_values(args[0]) - 1) // 10, bytes_of(args[0]))


def _sorting(args: Sequence[Value]) -> Work:
    return Work(len(args[0]) * len(args[0]).bit_length(), bytes_of(args[0]))


def _sets(args: Sequence[Value]) -> Work:
    left, right = args
    return Work((len(left) * _values(right) + len(right) * _values(left)) // 10)


def _copy(args: Sequence[Value]) -> Work:
    return Work(len(args[0]) // 100, bytes_of(args[0]))


def _both(args: Sequence[Value]) -> Work:
    if not isinstance(args[0], str | bytes | list):
        return NO_WORK
    size = bytes_of(args[0]) + bytes_of(args[1])
    return Work(size // 1000, size)


def _flatten(args: Sequence[Value]) -> Work:
    values = _values(args[0])
    return Work(values, ELEMENT_BYTES * values)


def _range(args: Sequence[Value]) -> Work:
    return Work(0, ELEMENT_BYTES * max(args[0], 0))


def _join(args: Sequence[Value]) -> Work:
    texts = args[0]
    separator = bytes_of(args[1]) if len(args) > 1 else 0
    return Work(len(texts) // 10, sum(map(bytes_of, texts)) + separator * len(texts))


def _replace(args: Sequence[Value]) -> Work:
    text, old, new = args[:3]
    count = text.count(old) if old else len(text) + 1
    limit = args[3] if len(args) > 3 else -1
    if limit >= 0:
        count = min(count, limit)
    return Work(len(text) // 1000, bytes_of(text) + count * bytes_of(new))


def _split(args: Sequence[Value]) -> Work:
    text, separator = args[:2]
    count = text.count(separator) if separator else len(text)
    return Work(count // 10, bytes_of(text) + ELEMENT_BYTES * count)


def _format(args: Sequence[Value]) -> Work:
    text, values = args
    extents = [extent(value) for value in values]
    digits = format_bytes(text, values)
    size = bytes_of(text) + digits + sum(printed for _, printed in extents)
    return Work((len(text) + digits) // 16 + sum(count for count, _ in extents), size)


def _find_all(args: Sequence[Value]) -> Work:
    return Work(len(args[0]), bytes_of(args[0]))


_WORK: Final[dict[str, WorkFunction]] = {
    **dict.fromkeys(("_==_", "_!=_"), _comparison),
    **dict.fromkeys(("indexOf", "lastIndexOf", "isSorted", "sum", "min", "max", "unwrapOpt"), _search),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
    **dict.fromkeys(("slice", "reverse"), _copy),
    "@in": _membership,
    "includes": _includes,
    "distinct": _self_comparison,
    "sort": _sorting,
    "@sortByAssociatedKeys": _sorting,
    "_+_": _both,
    "flatten": _flatten,
    "lists.range": _range,
    "join": _join,
    "format": _format,
    "replace": _replace,
    "split": _split,
    "findAll": _find_all,
}
