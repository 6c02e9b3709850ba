"""Lists and sets: CEL's extensions and Kubernetes' own list functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Final

from dra_spawner.dra.cel.errors import CelCostLimitExceeded, EvaluationError
from dra_spawner.dra.cel.library import cost as costs
from dra_spawner.dra.cel.library.functions import declare, overload
from dra_spawner.dra.cel.library.operators import add_int, add_uint, compare, is_true_equal, list_contains
from dra_spawner.dra.cel.values import Uint, Value, no_overload

__all__: list[str] = []

_COMPARABLE: Final = ("int", "uint", "double", "bool", "string", "bytes")
_COMPARABLE_KINDS: Final = frozenset([int, Uint, float, bool, str, bytes])
#: ``resource.k8s.io`` ResourceSliceMaxAttributeValuesPerDevice.
_MAX_INCLUDES: Final = 48


@overload("list(T) . slice(int, int) -> list(T)", cost=costs.new_list)
def _slice(values: list[Value], start: int, end: int) -> list[Value]:
    problem = ""
    if start < 0 or end < 0:
        problem = "negative indexes not supported"
    elif start > end:
        problem = "start index must be less than or equal to end index"
    elif end > len(values):
        problem = f"list is length {len(values)}"
    if problem:
        raise EvaluationError(f"cannot slice({start}, {end}), {problem}")
    return values[start:end]


@overload("list(list(T)) . flatten() -> list(T)", cost=costs.flattening)
def _flatten_once(values: list[Value]) -> list[Value]:
    return _flatten(values, 1)


@overload("list(dyn) . flatten(int) -> list(dyn)", cost=costs.flattening)
def _flatten(values: list[Value], depth: int) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(depth):
        if not any(type(value) is list for value in values):
            break
        values = [inner for value in values for inner in (value if type(value) is list else [value])]
    return values


@overload("lists.range(int) -> list(int)", cost=costs.new_list)
def _range(count: int) -> list[int]:
    if count > costs.COST_LIMIT:
        raise CelCostLimitExceeded("operation cancelled: actual cost limit exceeded")
    return list(range(count))


@overload("list(T) . reverse() -> list(T)", cost=costs.new_list)
def _reverse(values: list[Value]) -> list[Value]:
    return values[::-1]


@overload("list(T) . distinct() -> list(T)", cost=costs.self_comparison)
def _distinct(values: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for value in values:
        if not list_contains(value, unique):
            unique.append(value)
    return unique


def _sort(values: list[Value]) -> list[Value]:
    return _sort_by(values, values)


def _sort_by(values: list[Value], keys: list[Value]) -> list[Value]:
    if not values:
        return values
    kind = type(keys[0])
    if kind not in _COMPARABLE_KINDS:
        raise EvaluationError("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = sorted(range(len(values)), key=lambda index: _SORT_KEY(keys[index]))
    return [values[index] for index in order]


def _order(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


_SORT_KEY: Final = cmp_to_key(_order)


def _is_sorted(values: list[Value]) -> bool:
    _require_comparable(values)
    return all(_order(values[index], values[index + 1]) <= 0 for index in range(len(values) - 1))


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def pick(values: list[Value]) -> Value:
        _require_comparable(values)
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if _order(value, best) == sign:
                best = value
        return best

    return pick


def _require_comparable(values: list[Value]) -> None:
    if values and type(values[0]) not in _COMPARABLE_KINDS:
        raise no_overload()


def _total(values: list[Value]) -> Value:
    """Sum of what is not empty; all elements are of the first one's type."""
    kind = type(values[0]) if values else int
    add = {int: add_int, Uint: add_uint, float: float.__add__}.get(kind)
    if add is None or any(type(value) is not kind for value in values):
        raise no_overload()
    total: Value = kind(0)
    for value in values:
        total = add(total, value)
    return total


def _sum_of(zero: Value) -> Callable[[list[Value]], Value]:
    def total(values: list[Value]) -> Value:
        return _total(values) if values else zero

    return total


for _kind in _COMPARABLE:
    declare(f"list({_kind}) . sort() -> list({_kind})", _sort, costs.self_comparison)
    declare(f"list(T) . @sortByAssociatedKeys(list({_kind})) -> list(T)", _sort_by, costs.key_comparison)
    declare(f"list({_kind}) . isSorted() -> bool", _is_sorted, costs.deep_traversal)
    declare(f"list({_kind}) . min() -> {_kind}", _extreme("min", -1), costs.deep_traversal)
    declare(f"list({_kind}) . max() -> {_kind}", _extreme("max", 1), costs.deep_traversal)
for _kind, _zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0)):
    declare(f"list({_kind}) . sum() -> {_kind}", _sum_of(_zero), costs.deep_traversal)


@overload("list(A) . indexOf(A) -> int", cost=costs.deep_traversal)
def _index_of(values: list[Value], wanted: Value) -> int:
    return next((index for index, value in enumerate(values) if is_true_equal(value, wanted)), -1)


@overload("list(A) . lastIndexOf(A) -> int", cost=costs.deep_traversal)
def _last_index_of(values: list[Value], wanted: Value) -> int:
    return next((index for index in reversed(range(len(values))) if is_true_equal(values[index], wanted)), -1)


@overload("dyn . includes(dyn) -> bool")
def _includes(target: Value, wanted: Value) -> bool:
    if type(target) is not list:
        return is_true_equal(target, wanted)
    for index, value in enumerate(target):
        if index >= _MAX_INCLUDES:
            raise EvaluationError(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
        if is_true_equal(value, wanted):
            return True
    return False


@overload("sets.contains(list(T), list(T)) -> bool", cost=costs.cross_product)
def _set_contains(values: list[Value], subset: list[Value]) -> bool:
    return all(list_contains(value, values) for value in subset)


@overload("sets.equivalent(list(T), list(T)) -> bool", cost=costs.double_cross_product)
def _set_equivalent(left: list[Value], right: list[Value]) -> bool:
    return _set_contains(left, right) and _set_contains(right, left)


@overload("sets.intersects(list(T), list(T)) -> bool", cost=costs.cross_product)
def _set_intersects(left: list[Value], right: list[Value]) -> bool:
    return any(list_contains(value, right) for value in left)
