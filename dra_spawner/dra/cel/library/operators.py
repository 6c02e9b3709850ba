"""Equality, order and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver
from dra_spawner.dra.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    DefaultMap,
    OptionalValue,
    TypeValue,
    Uint,
    Value,
    map_key,
    no_overload,
)

#: Types whose values of one type Python compares as CEL does (doubles: but for NaN).
ORDERED: Final = frozenset([int, str, float, Uint, bool, bytes])
_NUMBERS: Final = frozenset([int, Uint, float])


def equals(left: Value, right: Value) -> bool:
    """``left == right``. Values of different types are just different, except for versions and quantities.

    Raises
    ------
    EvaluationError
        When a version or a quantity is compared with anything else.
    """
    if left is None or right is None:
        return left is right
    kind = type(left)
    if kind is type(right) and kind in ORDERED:
        return bool(left == right)
    if kind in _NUMBERS:
        return type(right) in _NUMBERS and _numbers_equal(left, right)
    compare_kind = _EQUALITY.get(kind)
    return False if compare_kind is None else compare_kind(left, right)


def differs(left: Value, right: Value) -> bool:
    """``left != right``: values that cannot be compared are different."""
    return not is_true_equal(left, right)


def is_true_equal(left: Value, right: Value) -> bool:
    """Whether the values are equal for sure; an error counts as different."""
    try:
        return equals(left, right)
    except EvaluationError:
        return False


def _not_different(left: Value, right: Value) -> bool:
    """How elements of lists and maps compare in Kubernetes: an error does not make them different."""
    try:
        return equals(left, right)
    except EvaluationError:
        return True


def _numbers_equal(left: float, right: float) -> bool:
    return not (math.isnan(left) or math.isnan(right)) and compare_numbers(left, right) == 0


def compare_numbers(left: float, right: float) -> int:
    """-1, 0 or 1 for numbers of any two types; an integer meets a double as a double, which is not exact."""
    if type(left) is not type(right) and float in (type(left), type(right)):
        left, right = float(left), float(right)
    return (left > right) - (left < right)


def _lists_equal(left: list[Value], right: Value) -> bool:
    return type(right) is list and len(left) == len(right) and all(map(_not_different, left, right))


def _maps_equal(left: dict[Value, Value], right: Value) -> bool:
    if not isinstance(right, dict) or len(left) != len(right):
        return False
    for key, value in left.items():
        other = right[key] if type(right) is DefaultMap else right.get(key, ABSENT)
        if other is ABSENT or not _not_different(value, other):
            return False
    return True


def _optionals_equal(left: OptionalValue, right: Value) -> bool:
    if type(right) is not OptionalValue or left.present != right.present:
        return False
    return not left.present or equals(left.value, right.value)


def _versions_equal(left: Semver, right: Value) -> bool:
    if type(right) is not Semver:
        raise no_overload()
    return left.key == right.key


def _quantities_equal(left: CelQuantity, right: Value) -> bool:
    if type(right) is not CelQuantity or right.computed:
        raise no_overload()
    return left.nano == right.nano


def _types_equal(left: TypeValue, right: Value) -> bool:
    return type(right) is TypeValue and left.name == right.name


_EQUALITY: Final[dict[type, Callable[[Value, Value], bool]]] = {
    list: _lists_equal,
    dict: _maps_equal,
    DefaultMap: _maps_equal,
    OptionalValue: _optionals_equal,
    Semver: _versions_equal,
    CelQuantity: _quantities_equal,
    TypeValue: _types_equal,
}


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1.

    Raises
    ------
    EvaluationError
        When the two have no order.
    """
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if math.isnan(left) or math.isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if kind is other and kind in ORDERED:
        return int(left > right) - int(left < right)
    raise no_overload()


def list_contains(needle: Value, values: list[Value]) -> bool:
    """``needle in values``."""
    return any(is_true_equal(needle, value) for value in values)


def contains(needle: Value, container: Value) -> bool:
    """``needle in container`` for lists and maps.

    Raises
    ------
    EvaluationError
        When the container is neither.
    """
    if type(container) is list:
        return list_contains(needle, container)
    if isinstance(container, dict):
        return map_key(needle) in container
    raise no_overload()


def _checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def add_int(left: int, right: int) -> int:
    return _checked_int(left + right)


def add_uint(left: int, right: int) -> Uint:
    return _checked_uint(int(left) + int(right))


def subtract_int(left: int, right: int) -> int:
    return _checked_int(left - right)


def subtract_uint(left: int, right: int) -> Uint:
    return _checked_uint(int(left) - int(right))


def multiply_int(left: int, right: int) -> int:
    return _checked_int(left * right)


def multiply_uint(left: int, right: int) -> Uint:
    return _checked_uint(int(left) * int(right))


def divide_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def divide_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def divide_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def modulo_uint(left: int, right: int) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def negate_int(value: int) -> int:
    return _checked_int(-value)
