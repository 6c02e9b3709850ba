"""CEL's own operators, conversions and functions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.library import cost as costs
from dra_spawner.dra.cel.library import operators as ops
from dra_spawner.dra.cel.library.functions import declare, overload
from dra_spawner.dra.cel.library.regular_expressions import search
from dra_spawner.dra.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    OptionalValue,
    TypeValue,
    Uint,
    Value,
    no_overload,
    type_name,
)

# What may be compared with what; the order counts, see _declare_arithmetic().
_ORDERED_TYPES: Final = {
    "bool": ("bool",),
    "int": ("int", "double", "uint"),
    "uint": ("uint", "double", "int"),
    "double": ("double", "int", "uint"),
    "string": ("string",),
    "bytes": ("bytes",),
}

_INT: Final = re.compile(r"[+-]?[0-9]+\Z")
_UINT: Final = re.compile(r"[0-9]+\Z")
# As Go writes numbers: single underscores may stand between digits.
_DIGITS: Final = r"[0-9](?:_?[0-9])*"
_DOUBLE: Final = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?\Z")
_HEX_DIGITS: Final = r"[0-9a-fA-F](?:_?[0-9a-fA-F])*"
_HEX_DOUBLE: Final = re.compile(
    rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}\Z"
)
_NOT_FINITE: Final = re.compile(r"[+-]?(?:inf|infinity|nan)\Z", re.IGNORECASE)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _conversion_error(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


def _identity(value: Value) -> Value:
    return value


def _not_called(*args: Value) -> Value:
    raise no_overload()  # the compiler has code of its own for these


def _declare_operators() -> None:
    declare("_?_:_(bool, A, A) -> A", _not_called)
    declare("_&&_(bool, bool) -> bool", _not_called)
    declare("_||_(bool, bool) -> bool", _not_called)
    declare("!_(bool) -> bool", operator.not_)
    declare("_==_(A, A) -> bool", ops.equals, costs.equality)
    declare("_!=_(A, A) -> bool", ops.differs, costs.shorter)
    declare("@in(A, list(A)) -> bool", ops.contains, costs.membership)
    declare("@in(A, map(A, B)) -> bool", ops.contains, costs.membership)
    for symbol, test in _RELATIONS.items():
        for left, rights in _ORDERED_TYPES.items():
            cost = costs.shorter if left in ("string", "bytes") else costs.one
            for right in rights:
                declare(f"_{symbol}_({left}, {right}) -> bool", test, cost)
    declare("_[_](list(A), int) -> A", _not_called)
    declare("_[_](map(A, B), A) -> B", _not_called)
    declare("_[_](optional_type(list(V)), int) -> optional_type(V)", _not_called)
    declare("_[_](optional_type(map(K, V)), K) -> optional_type(V)", _not_called)
    declare("_[?_](list(V), int) -> optional_type(V)", _not_called)
    declare("_[?_](optional_type(list(V)), int) -> optional_type(V)", _not_called)
    declare("_[?_](map(K, V), K) -> optional_type(V)", _not_called)
    declare("_[?_](optional_type(map(K, V)), K) -> optional_type(V)", _not_called)


def _relation(accepts: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def test(left: Value, right: Value) -> bool:
        return accepts(ops.compare(left, right))

    return test


_RELATIONS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "<": _relation(lambda order: order < 0),
    "<=": _relation(lambda order: order <= 0),
    ">": _relation(lambda order: order > 0),
    ">=": _relation(lambda order: order >= 0),
}


def _declare_arithmetic() -> None:
    # Where an operand's type is still open (an element of []) the first overload decides it, so the order counts.
    declare("_+_(bytes, bytes) -> bytes", operator.add, costs.concatenation)
    declare("_+_(double, double) -> double", operator.add)
    declare("_+_(int, int) -> int", ops.add_int)
    declare("_+_(list(A), list(A)) -> list(A)", operator.add)
    declare("_+_(string, string) -> string", operator.add, costs.concatenation)
    declare("_+_(uint, uint) -> uint", ops.add_uint)
    declare("_-_(double, double) -> double", operator.sub)
    declare("_-_(int, int) -> int", ops.subtract_int)
    declare("_-_(uint, uint) -> uint", ops.subtract_uint)
    declare("_*_(double, double) -> double", operator.mul)
    declare("_*_(int, int) -> int", ops.multiply_int)
    declare("_*_(uint, uint) -> uint", ops.multiply_uint)
    declare("_/_(double, double) -> double", ops.divide_double)
    declare("_/_(int, int) -> int", ops.divide_int)
    declare("_/_(uint, uint) -> uint", ops.divide_uint)
    declare("_%_(int, int) -> int", ops.modulo_int)
    declare("_%_(uint, uint) -> uint", ops.modulo_uint)
    declare("-_(double) -> double", operator.neg)
    declare("-_(int) -> int", ops.negate_int)


_declare_operators()
_declare_arithmetic()

for _kind in ("bytes", "list(A)", "map(A, B)", "string"):
    declare(f"size({_kind}) -> int", len)
    declare(f"{_kind} . size() -> int", len)


@overload("type(A) -> type(A)")
def _type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


declare("dyn(A) -> dyn", _identity)
for _kind in ("bool", "bytes", "double", "int", "string", "uint"):
    declare(f"{_kind}({_kind}) -> {_kind}", _identity)


@overload("bool(string) -> bool")
def _string_to_bool(text: str) -> bool:
    value = _BOOLS.get(text)
    if value is None:
        raise _conversion_error("string", "bool")
    return value


@overload("bytes(string) -> bytes", cost=costs.traversal)
def _string_to_bytes(text: str) -> bytes:
    return text.encode()


@overload("double(int) -> double", "double(uint) -> double")
def _integer_to_double(value: int) -> float:
    return float(value)


@overload("double(string) -> double")
def _string_to_double(text: str) -> float:
    value: float | None = None
    if _DOUBLE.match(text) or _NOT_FINITE.match(text):
        value = float(text)
        if math.isinf(value) and not _NOT_FINITE.match(text):
            value = None
    elif _HEX_DOUBLE.match(text):
        try:
            value = float.fromhex(text.replace("_", ""))
        except OverflowError:
            value = None
    if value is None:
        raise _conversion_error("string", "double")
    return value


@overload("int(double) -> int")
def _double_to_int(value: float) -> int:
    if not float(INT_MIN) < value < float(INT_MAX):  # also false for NaN
        raise EvaluationError("integer overflow")
    return int(value)


@overload("int(uint) -> int")
def _uint_to_int(value: Uint) -> int:
    if value > INT_MAX:
        raise EvaluationError("integer overflow")
    return int(value)


@overload("int(string) -> int")
def _string_to_int(text: str) -> int:
    if len(text) > 1000 or not _INT.match(text) or not INT_MIN <= int(text) <= INT_MAX:
        raise _conversion_error("string", "int")
    return int(text)


@overload("uint(double) -> uint")
def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < float(UINT_MAX):
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


@overload("uint(int) -> uint")
def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


@overload("uint(string) -> uint")
def _string_to_uint(text: str) -> Uint:
    if len(text) > 1000 or not _UINT.match(text) or int(text) > UINT_MAX:
        raise _conversion_error("string", "uint")
    return Uint(int(text))


@overload("string(bool) -> string")
def _bool_to_string(value: bool) -> str:
    return "true" if value else "false"


@overload("string(bytes) -> string", cost=costs.traversal)
def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


@overload("string(int) -> string", "string(uint) -> string")
def _integer_to_string(value: int) -> str:
    return str(int(value))


@overload("string(double) -> string")
def go_format_g(value: float) -> str:
    """A double as Go prints it with ``%g``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, _, power = repr_scientific(value).partition("e")
    exponent = int(power)
    if exponent < -4 or exponent >= 6:
        return f"{digits}e{exponent:+03d}"
    count = len(digits.lstrip("-").replace(".", ""))
    return f"{value:.{max(count - 1 - exponent, 0)}f}"


def repr_scientific(value: float) -> str:
    """The shortest scientific notation that reads back as the same double."""
    return next(text for precision in range(18) if float(text := f"{value:.{precision}e}") == value)


@overload("string . contains(string) -> bool", cost=costs.substring_search)
def _contains(text: str, part: str) -> bool:
    return part in text


@overload("string . startsWith(string) -> bool", cost=costs.traversal)
def _starts_with(text: str, prefix: str) -> bool:
    return text.startswith(prefix)


@overload("string . endsWith(string) -> bool", cost=costs.traversal)
def _ends_with(text: str, suffix: str) -> bool:
    return text.endswith(suffix)


@overload("matches(string, string) -> bool")  # Kubernetes counts it as one step
@overload("string . matches(string) -> bool", cost=costs.regex)
def _matches(text: str, pattern: str) -> bool:
    return search(pattern, text) is not None


@overload("optional.of(V) -> optional_type(V)")
def _optional_of(value: Value) -> OptionalValue:
    return OptionalValue(value)


@overload("optional.ofNonZeroValue(V) -> optional_type(V)")
def _optional_of_non_zero(value: Value) -> OptionalValue:
    if value is None or (type(value) in (bool, int, Uint, float, str, bytes, list, dict) and not value):
        return NONE
    return OptionalValue(value)


@overload("optional.none() -> optional_type(V)")
def _optional_none() -> OptionalValue:
    return NONE


@overload("optional_type(V) . value() -> V")
def _optional_value(optional: OptionalValue) -> Value:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


@overload("optional_type(V) . hasValue() -> bool")
def _optional_has_value(optional: OptionalValue) -> bool:
    return optional.present


declare("optional_type(V) . or(optional_type(V)) -> optional_type(V)", _not_called)
declare("optional_type(V) . orValue(V) -> V", _not_called)


@overload("list(V) . first() -> optional_type(V)")
def _first(values: list[Value]) -> OptionalValue:
    return OptionalValue(values[0]) if values else NONE


@overload("list(V) . last() -> optional_type(V)")
def _last(values: list[Value]) -> OptionalValue:
    return OptionalValue(values[-1]) if values else NONE


@overload(
    "optional.unwrap(list(optional_type(V))) -> list(V)",
    "list(optional_type(V)) . unwrapOpt() -> list(V)",
)
def _unwrap(values: list[Value]) -> list[Value]:
    if any(type(value) is not OptionalValue for value in values):
        raise EvaluationError("value is not optional")
    return [value.value for value in values if value.present]
