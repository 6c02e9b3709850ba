"""Types at compile time, and the algebra the checker needs: assignability, unification, substitution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class CelType:
    """A type; ``is_param`` marks a type variable."""

    name: str
    params: tuple[CelType, ...] = ()
    is_param: bool = False
    open: bool = False
    """Whether type variables occur in it."""

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN: Final = CelType("dyn")
ANY: Final = CelType("any")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null")
ERROR: Final = CelType("!error!")
QUANTITY: Final = CelType("kubernetes.Quantity")
SEMVER: Final = CelType("kubernetes.Semver")
DEVICE: Final = CelType("kubernetes.DRADevice")

_NULLABLE: Final = frozenset(["optional_type", QUANTITY.name, SEMVER.name, DEVICE.name, "any"])


def type_of(name: str, *params: CelType) -> CelType:
    return CelType(name, params, open=any(param.open for param in params))


def list_of(element: CelType) -> CelType:
    """``list(element)``."""
    return CelType("list", (element,), open=element.open)


def map_of(key: CelType, value: CelType) -> CelType:
    """``map(key, value)``."""
    return CelType("map", (key, value), open=key.open or value.open)


def optional_of(value: CelType) -> CelType:
    """``optional_type(value)``."""
    return CelType("optional_type", (value,), open=value.open)


def variable(name: str) -> CelType:
    return CelType(name, is_param=True, open=True)


def is_dynamic(kind: CelType) -> bool:
    """Whether values of the type are known at run time only."""
    return kind.name in ("dyn", "any")


_TYPE_TOKEN: Final = re.compile(r"[A-Za-z_.]+|[(),]")


@lru_cache(maxsize=512)
def parse_type(text: str) -> CelType:
    """Type from its text, such as ``map(K, list(int))``; a single capital letter is a type variable."""
    tokens = _TYPE_TOKEN.findall(text)
    kind, end = _parse_type(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"bad type: {text}")
    return kind


def _parse_type(tokens: list[str], index: int) -> tuple[CelType, int]:
    name = tokens[index]
    index += 1
    params: list[CelType] = []
    if index < len(tokens) and tokens[index] == "(":
        while tokens[index] != ")":
            param, index = _parse_type(tokens, index + 1)
            params.append(param)
        index += 1
    if len(name) == 1 and name.isupper():
        return variable(name), index
    return type_of(name, *params), index


def _less_specific_or_equal(one: CelType, other: CelType) -> bool:
    if is_dynamic(one) or one.is_param:
        return True
    if is_dynamic(other) or other.is_param or one.name != other.name or len(one.params) != len(other.params):
        return False
    return one.name == "type" or all(map(_less_specific_or_equal, one.params, other.params))


def max_general(one: CelType, other: CelType) -> CelType:
    """The more general of two types that unify."""
    return one if _less_specific_or_equal(one, other) else other


class Substitution:
    """What is known about type variables so far."""

    __slots__ = ("_known", "_next")

    def __init__(self) -> None:
        self._known: dict[CelType, CelType] = {}
        self._next = 0

    def fresh(self) -> CelType:
        """A new type variable."""
        self._next += 1
        return variable(f"_var{self._next - 1}")

    def apply(self, kind: CelType, *, to_dyn: bool = False) -> CelType:
        """The type with all known variables replaced, and the unknown ones by dyn when asked."""
        if not kind.open:
            return kind
        if kind.is_param:
            known = self._known.get(kind)
            if known is not None:
                return self.apply(known, to_dyn=to_dyn)
            return DYN if to_dyn else kind
        return type_of(kind.name, *(self.apply(param, to_dyn=to_dyn) for param in kind.params))

    def assign(self, sources: tuple[CelType, ...], targets: tuple[CelType, ...]) -> bool:
        """Whether all sources are assignable to their targets; only then is something learnt from it."""
        before = None
        if any(kind.open for kind in sources) or any(kind.open for kind in targets):
            before = self._known.copy()
        if len(sources) == len(targets) and all(map(self._assignable, sources, targets)):
            return True
        if before is not None:
            self._known = before
        return False

    def _assignable(self, one: CelType, other: CelType) -> bool:
        if other.is_param:
            valid, known = self._substitutable(one, other)
            if valid or known:
                return valid
        if one.is_param:
            return self._substitutable(other, one)[0]
        if one.name in ("dyn", "any", "!error!") or other.name in ("dyn", "any", "!error!"):
            return True
        if one.name == "null" or other.name == "null":
            return one.name == other.name or (other if one.name == "null" else one).name in _NULLABLE
        if one.name != other.name:
            return False
        if one.name == "type":
            return True
        return len(one.params) == len(other.params) and all(map(self._assignable, one.params, other.params))

    def _substitutable(self, kind: CelType, param: CelType) -> tuple[bool, bool]:
        """Whether the variable may stand for the type, and whether something was known of the variable."""
        if kind == param:
            return True, True
        known = self._known.get(param)
        if known is not None:
            if kind == known:
                return True, True
            if not self._assignable(kind, known):
                return False, True
            general = max_general(kind, known)
            if not self._occurs(param, general):
                self._known[param] = general
            return True, True
        if self._occurs(param, kind):
            return False, False
        self._known[param] = kind
        return True, False

    def _occurs(self, param: CelType, kind: CelType) -> bool:
        if param == kind:
            return True
        if kind.is_param:
            known = self._known.get(kind)
            return known is not None and self._occurs(param, known)
        return any(self._occurs(param, inner) for inner in kind.params)
