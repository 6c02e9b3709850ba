"""Values at run time.

CEL's int, bool, double, string, bytes, null and list are Python's ``int``, ``bool``, ``float``, ``str``, ``bytes``,
``None`` and ``list``; a map is a ``dict`` whose keys went through :func:`map_key`. The rest has classes here and in
:mod:`.semver` and :mod:`.quantities`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.quantities import CelQuantity
from dra_spawner.dra.cel.semver import Semver

#: Whatever an expression may compute. Python's type system cannot follow CEL's dynamic types.
Value: TypeAlias = Any

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
    """``optional.of(value)`` or, without a value, ``optional.none()``."""

    value: Value = None
    present: bool = True


NONE: Final = OptionalValue(present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What ``type()`` returns."""

    name: str


class BoolKey:
    """A bool as a map key: in Python ``True == 1``, in CEL it is not."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value


_TRUE_KEY: Final = BoolKey(True)
_FALSE_KEY: Final = BoolKey(False)


class _Absent:
    """Represents "there is nothing"; None is a CEL value."""


ABSENT: Final = _Absent()


class DefaultMap(dict[str, Value]):
    """A map that answers every unknown key with an empty map: the domains of a device.

    Only looking a key up does that. ``in``, ``size()`` and the macros see what is really there.
    """

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Value]:
        return {}


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    OptionalValue: "optional_type",
    TypeValue: "type",
    Semver: "kubernetes.Semver",
    CelQuantity: "kubernetes.Quantity",
}


def type_name(value: Value) -> str:
    """Name of the value's CEL type."""
    return _TYPE_NAMES[type(value)]


def map_key(value: Value) -> Value:
    """The form of a value that finds it in a map: bools differ from numbers, equal numbers are equal keys."""
    if value is True:
        return _TRUE_KEY
    if value is False:
        return _FALSE_KEY
    return value if type(value) in (str, int, Uint, float) else ABSENT


def from_map_key(key: Value) -> Value:
    """The value that :func:`map_key` was given."""
    return key.value if type(key) is BoolKey else key


def no_overload() -> EvaluationError:
    """The error of an operation on types that it is not defined for."""
    return EvaluationError("no such overload")
