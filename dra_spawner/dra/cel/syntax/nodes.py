"""Syntax trees. ``offset`` is where the API server would point at: an operator, a dot, a bracket, a first character."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from dra_spawner.dra.cel.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    offset: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A variable or the name of a type."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """``operand.field``, ``operand.?field`` or ``has(operand.field)``."""

    offset: int
    operand: Node
    field: str
    optional: bool = False
    test_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function, method or operator; operators have names such as ``_==_``."""

    offset: int
    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """``[a, ?b]``."""

    offset: int
    elements: tuple[Node, ...]
    optional: frozenset[int]
    """Indices of the elements with a question mark."""


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """One ``key: value`` or ``?key: value``."""

    key: Node
    value: Node
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    """``{k: v}``."""

    offset: int
    entries: tuple[MapEntry, ...]


class FoldKind(StrEnum):
    """The macros that visit each element of a list or each key of a map."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    MAP = "map"
    FILTER = "filter"
    TRANSFORM_LIST = "transformList"
    TRANSFORM_MAP = "transformMap"
    TRANSFORM_MAP_ENTRY = "transformMapEntry"
    SORT_BY = "sortBy"


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A macro over ``range``, with one variable or with two (index or key, and value)."""

    offset: int
    kind: FoldKind
    range: Node
    variables: tuple[str, ...]
    predicate: Node | None
    transform: Node | None


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    """``cel.bind(name, value, body)``: the value is computed when it is first used, and once."""

    offset: int
    name: str
    value: Node
    body: Node


@dataclass(frozen=True, slots=True, eq=False)
class OptionalMap:
    """``target.optMap(name, body)`` or, when flat, ``target.optFlatMap(name, body)``."""

    offset: int
    target: Node
    name: str
    body: Node
    flat: bool


Node: TypeAlias = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Fold | Bind | OptionalMap


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case Fold():
            return tuple(part for part in (node.range, node.predicate, node.transform) if part is not None)
        case Bind():
            return (node.value, node.body)
        case OptionalMap():
            return (node.target, node.body)
        case _:
            return ()
