"""What calls of functions cost at most, and how large their results may be, as the API server estimates.

(``EstimateCallCost`` in ``k8s.io/apiserver/pkg/cel/library/cost.go``, and cel-go's own estimates.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from dra_spawner.dra.cel.cel_types import CelType, is_dynamic
from dra_spawner.dra.cel.estimation.size_estimates import (
    MAX,
    UNKNOWN,
    Path,
    Size,
    add,
    device_size,
    multiply,
    scale,
    wrap,
)
from dra_spawner.dra.cel.library.cost import LIST_COST
from dra_spawner.dra.cel.library.functions import Overload
from dra_spawner.dra.cel.syntax.nodes import Literal, Node

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_MAX_INCLUDED: Final = 48  # ResourceSliceMaxAttributeValuesPerDevice
_TEXTS: Final = frozenset(["string", "bytes"])
_SIMPLE: Final = frozenset(["kubernetes.Quantity", "kubernetes.Semver"])


@dataclass(frozen=True, slots=True)
class Argument:
    """A target or an argument of a call."""

    kind: CelType
    path: Path | None
    known_size: Size | None
    node: Node

    @property
    def size(self) -> Size:
        return self.known_size or UNKNOWN


class CallEstimate(NamedTuple):
    """Highest cost of a call without its arguments, and the size of the result where there is an estimate."""

    cost: int
    size: Size | None = None


Estimator: TypeAlias = Callable[[Sequence[Argument]], CallEstimate]


def call_estimate(overload: Overload, target: Argument | None, args: Sequence[Argument]) -> CallEstimate:
    if target is not None:
        args = (target, *args)
    if overload.function == "sort":
        return sort_estimate(overload.params[0], args[0].size)
    estimator = _ESTIMATORS.get((overload.function, target is not None))
    if estimator is not None:
        return estimator(args)
    if overload.function in _COMPARISONS and (
        overload.params[0].name in _TEXTS or overload.function in ("_==_", "_!=_")
    ):
        return _comparison(overload.function, args)
    if overload.function == "@in" and overload.params[1].name == "list":
        return CallEstimate(args[1].size.high)
    by_type = _BY_TYPE.get((overload.function, overload.params[0].name)) if overload.params else None
    return CallEstimate(1) if by_type is None else by_type(args)


def _comparison(function: str, args: Sequence[Argument]) -> CallEstimate:
    left, right = args
    if function == "_==_" and left.kind == right.kind and left.kind.name in _SIMPLE:
        return CallEstimate(1)
    return CallEstimate(scale(min(left.size.high, right.size.high), _TRAVERSAL))


def _traversal(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(scale(args[0].size.high, _TRAVERSAL))


def _part(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(scale(args[0].size.high, _TRAVERSAL), args[0].size)


def _argument_traversal(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(scale(args[1].size.high, _TRAVERSAL))


def _to_bytes(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(scale(size.high, _TRAVERSAL), Size(size.low, wrap(size.high * 4)))


def _to_string(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(scale(size.high, _TRAVERSAL), Size(size.low // 4, size.high))


def _quoted(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size
    return CallEstimate(scale(size.high, _TRAVERSAL), Size(wrap(size.low + 2), wrap(size.high * 2 + 2)))


def _pattern_cost(args: Sequence[Argument]) -> int:
    return multiply(scale(add(args[0].size.high, 1), _TRAVERSAL), scale(args[1].size.high, _PATTERN))


def _matches(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(_pattern_cost(args))


def _find(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(_pattern_cost(args), Size(0, args[0].size.high))


def _contains(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(multiply(scale(args[0].size.high, _TRAVERSAL), scale(args[1].size.high, _TRAVERSAL)))


def _concatenation(args: Sequence[Argument]) -> CallEstimate:
    size = args[0].size.plus(args[1].size)
    return CallEstimate(scale(size.high, _TRAVERSAL), size)


def _list_concatenation(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(1, args[0].size.plus(args[1].size))


def _replace(args: Sequence[Argument]) -> CallEstimate:
    text, old, new = (arg.size for arg in args[:3])
    if old.low == 0:  # an empty text is found around each character
        highest = add(multiply(add(text.high, 1), new.high), text.high)
    elif new.high <= old.low:
        highest = text.high
    else:
        highest = multiply(_rounded_up(text.high, old.low), new.high)
    if old.high == 0:
        lowest = add(multiply(add(text.low, 1), new.low), text.low)
    elif old.high <= new.low:
        lowest = text.low
    else:
        lowest = multiply(_rounded_up(text.low, old.high), new.low)
    return CallEstimate(scale(text.high, 2 * _TRAVERSAL), Size(lowest, highest))


def _rounded_up(number: int, divisor: int) -> int:
    return min(math.ceil(float(number) / float(divisor)), MAX)


def _split(args: Sequence[Argument]) -> CallEstimate:
    highest = args[0].size.high
    if len(args) > 2:
        match args[2].node:
            case Literal(value=int() as limit) if type(limit) is int:
                highest = wrap(limit)
    return CallEstimate(scale(args[0].size.high, 2 * _TRAVERSAL), Size(0, highest))


def _element_size(container: Argument) -> Size | None:
    """Size of a list's elements, None when its type does not say that it is one."""
    if not container.kind.params:
        return None
    return UNKNOWN if container.path is None else device_size(container.path.copied("@items")) or UNKNOWN


def _join(args: Sequence[Argument]) -> CallEstimate:
    count = args[0].size
    element = _element_size(args[0])
    size = Size(0, 0) if element is None else count.times(element)
    if len(args) > 1:
        separators = Size(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(args[1].size.times(separators))
    return CallEstimate(scale(size.high, _TRAVERSAL), size)


def _each_element(args: Sequence[Argument]) -> CallEstimate:
    element = _element_size(args[0])
    if element is None:
        return _traversal(args)
    cost = 1
    if args[0].kind.params[0].name in _TEXTS:
        cost = add(cost, scale(element.high, _TRAVERSAL))
    return CallEstimate(multiply(args[0].size.high, cost))


def _new_list(size: Size, factor: float = 1.0) -> CallEstimate:
    return CallEstimate(add(scale(size.high, factor), 1 + LIST_COST), size)


def _literal_int(argument: Argument, default: int) -> int:
    match argument.node:
        case Literal(value=int() as value) if type(value) is int:
            return max(value, 0)
    return default


def _slice(args: Sequence[Argument]) -> CallEstimate:
    count = wrap(_literal_int(args[2], args[0].size.high) - _literal_int(args[1], 0))
    return _new_list(Size(count, count))


def _range(args: Sequence[Argument]) -> CallEstimate:
    count = _literal_int(args[0], MAX)
    return _new_list(Size(count, count))


def _reverse(args: Sequence[Argument]) -> CallEstimate:
    return _new_list(args[0].size)


def _flatten(args: Sequence[Argument]) -> CallEstimate:
    depth = _literal_int(args[1], MAX) if len(args) == 2 else 1
    return _new_list(args[0].size, float(depth))


def _distinct(args: Sequence[Argument]) -> CallEstimate:
    return _new_list(args[0].size.times(args[0].size), 2.0)


def sort_estimate(keys: CelType, count: Size) -> CallEstimate:
    """The estimate for sorting by so many keys; ``keys`` is the type of their list, texts where that is open."""
    is_text = keys.params[0].name in _TEXTS or is_dynamic(keys.params[0])
    return _new_list(count.times(count), 2.0 + _TRAVERSAL if is_text else 2.0)


def _sets(factor: float) -> Estimator:
    def estimate(args: Sequence[Argument]) -> CallEstimate:
        return CallEstimate(add(scale(multiply(args[0].size.high, args[1].size.high), factor), 1))

    return estimate


def _includes(args: Sequence[Argument]) -> CallEstimate:
    return CallEstimate(_MAX_INCLUDED)


_COMPARISONS: Final = frozenset(["_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"])

#: Function and whether it is called with a target, where the types do not count.
_ESTIMATORS: Final[dict[tuple[str, bool], Estimator]] = {
    **dict.fromkeys([(name, False) for name in ("quantity", "isQuantity", "semver", "isSemver")], _traversal),
    **dict.fromkeys(
        [(name, True) for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")], _each_element
    ),
    **dict.fromkeys([(name, True) for name in ("lowerAscii", "upperAscii", "substring", "trim")], _part),
    ("replace", True): _replace,
    ("split", True): _split,
    ("join", True): _join,
    ("find", True): _find,
    ("findAll", True): _find,
    ("format", True): _traversal,
    ("strings.quote", False): _quoted,
    ("startsWith", True): _argument_traversal,
    ("endsWith", True): _argument_traversal,
    ("matches", True): _matches,
    ("contains", True): _contains,
    ("slice", True): _slice,
    ("flatten", True): _flatten,
    ("lists.range", False): _range,
    ("reverse", True): _reverse,
    ("distinct", True): _distinct,
    ("sets.contains", False): _sets(1.0),
    ("sets.intersects", False): _sets(1.0),
    ("sets.equivalent", False): _sets(2.0),
    ("includes", True): _includes,
}
#: Function and name of its first parameter's type.
_BY_TYPE: Final[dict[tuple[str, str], Estimator]] = {
    ("bytes", "string"): _to_bytes,
    ("string", "bytes"): _to_string,
    ("_+_", "string"): _concatenation,
    ("_+_", "bytes"): _concatenation,
    ("_+_", "list"): _list_concatenation,
}
