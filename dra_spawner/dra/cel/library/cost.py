"""What operations cost in Kubernetes' units.

The unit is roughly one step; going through a string costs a tenth a character. The scheduler stops an evaluation
beyond :data:`COST_LIMIT`. (``k8s.io/apiserver/pkg/cel/library/cost.go`` and the CEL interpreter's cost tracker.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver
from dra_spawner.dra.cel.values import OptionalValue, Value

#: ``resource.k8s.io`` CELSelectorExpressionMaxCost.
COST_LIMIT: Final = 1_000_000
LIST_COST: Final = 10
MAP_COST: Final = 30

CostFunction: TypeAlias = Callable[[Sequence[Value], Value], int]

#: Functions whose cost goes by their name; others cost one step where types leave open which overload is called.
NAMED: Final = frozenset(
    [
        "isSorted",
        "sum",
        "max",
        "min",
        "indexOf",
        "lastIndexOf",
        "lowerAscii",
        "upperAscii",
        "substring",
        "trim",
        "replace",
        "split",
        "join",
        "find",
        "findAll",
        "quantity",
        "isQuantity",
        "semver",
        "isSemver",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
    ]
)
_SIZED: Final = (str, bytes, list, dict)


def size_of(value: Value) -> int:
    """Length of what has one, else 1."""
    if isinstance(value, _SIZED):
        return len(value)
    if type(value) is OptionalValue and value.present:
        return size_of(value.value)
    return 1


def one(args: Sequence[Value], result: Value) -> int:
    return 1


def nothing(args: Sequence[Value], result: Value) -> int:
    """No step of its own."""
    return 0


def traversal(args: Sequence[Value], result: Value) -> int:
    """Once through the first argument."""
    return -(-size_of(args[0]) // 10)


def double_traversal(args: Sequence[Value], result: Value) -> int:
    """Through the first argument, and building the result."""
    return -(-2 * size_of(args[0]) // 10)


def joining(args: Sequence[Value], result: Value) -> int:
    """Through the result, twice."""
    return -(-2 * size_of(result) // 10)


def shorter(args: Sequence[Value], result: Value) -> int:
    """Through the shorter of two."""
    return -(-min(size_of(args[0]), size_of(args[1])) // 10)


def equality(args: Sequence[Value], result: Value) -> int:
    """As :func:`shorter`, but quantities and versions compare in one step."""
    return 1 if type(args[0]) in (CelQuantity, Semver) else shorter(args, result)


def concatenation(args: Sequence[Value], result: Value) -> int:
    """Through both."""
    return -(-(size_of(args[0]) + size_of(args[1])) // 10)


def membership(args: Sequence[Value], result: Value) -> int:
    """Through a list; a key of a map is found in one step."""
    return len(args[1]) if type(args[1]) is list else 1


def regex(args: Sequence[Value], result: Value) -> int:
    """Through the text as often as the pattern is long."""
    return -(-(1 + size_of(args[0])) // 10) * -(-size_of(args[1]) // 4)


def substring_search(args: Sequence[Value], result: Value) -> int:
    """Through one text as often as the other is long."""
    return -(-size_of(args[0]) // 10) * -(-size_of(args[1]) // 10)


def deep_traversal(args: Sequence[Value], result: Value) -> int:
    """Through a string or all elements of a list."""
    return _deep(args[0])


def _deep(value: Value) -> int:
    if isinstance(value, str):
        return len(value.encode()) // 10
    if isinstance(value, bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(_deep, value))
    if isinstance(value, dict):
        return sum(_deep(key) + _deep(inner) for key, inner in value.items())
    return 1


def new_list(args: Sequence[Value], result: Value) -> int:
    """Making a list of so many elements."""
    return size_of(result) + 1 + LIST_COST


def flattening(args: Sequence[Value], result: Value) -> int:
    """Through the list once for each level, and making the new one."""
    depth = args[1] if len(args) == 2 else 1
    return int(depth) * size_of(args[0]) + 1 + LIST_COST


def self_comparison(args: Sequence[Value], result: Value) -> int:
    """Each element of the first argument with each other."""
    return _comparing(args[0])


def key_comparison(args: Sequence[Value], result: Value) -> int:
    """Each key, which are the second argument, with each other."""
    return _comparing(args[1])


def _comparing(values: list[Value]) -> int:
    tenths = 21 if values and type(values[0]) in (str, bytes) else 20
    return len(values) ** 2 * tenths // 10 + 1 + LIST_COST


def cross_product(args: Sequence[Value], result: Value) -> int:
    """Each element of one with each of the other."""
    return 1 + size_of(args[0]) * size_of(args[1])


def double_cross_product(args: Sequence[Value], result: Value) -> int:
    """As :func:`cross_product`, both ways."""
    return 1 + 2 * size_of(args[0]) * size_of(args[1])
