"""What the compiler wants to know of the form of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dra_spawner.dra.cel.syntax.nodes import (
    Bind,
    Call,
    Fold,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    OptionalMap,
    Select,
    children,
)
from dra_spawner.dra.cel.values import ABSENT, Value, map_key

#: Functions whose result may be longer than their arguments, together with a binding that repeats them.
_REPEATING: Final = frozenset(["_+_", "join", "flatten", "quote"])
_SEARCHING: Final = frozenset(["matches", "find", "findAll"])
_SHORT_TEXT: Final = 256


def needs_meter(root: Node) -> bool:
    """Whether an evaluation can reach a limit.

    Each part of an expression without loops runs once at most, and 10 KiB of it stay far below the limits; unless
    a binding doubles the size of its value again and again, or a function alone makes much of little.
    """
    binds = repeats = searches = long_texts = False
    pending = [root]
    while pending:
        node = pending.pop()
        match node:
            case Fold() | Call(function="format" | "replace" | "range"):
                return True
            case Call(function=function):
                repeats = repeats or function in _REPEATING
                searches = searches or function in _SEARCHING
            case Bind() | OptionalMap():
                binds = True
            case ListLiteral() | MapLiteral():
                repeats = repeats or constant_collection(node) is ABSENT
            case Literal(value=str() as text):
                long_texts = long_texts or len(text) > _SHORT_TEXT
        pending += children(node)
    return (binds and repeats) or (searches and long_texts)


def constant_members(node: Node) -> list[Value] | None:
    """Values of a list of constants of the simple types."""
    if not isinstance(node, ListLiteral) or node.optional:
        return None
    values = [element.value for element in node.elements if isinstance(element, Literal)]
    return values if len(values) == len(node.elements) else None


def literal_value(node: Node) -> Value:
    """Value of a literal, else ABSENT."""
    return node.value if isinstance(node, Literal) else ABSENT


def constant_collection(node: Node, constant: Callable[[Node], Value] = literal_value) -> Value:
    """Value of a list or map of constants, which may be such lists and maps again, else ABSENT.

    ``constant`` tells the value of what is in them, ABSENT for what is no constant.
    """
    match node:
        case ListLiteral(elements=elements, optional=optional) if not optional:
            values = [constant_collection(element, constant) for element in elements]
            return ABSENT if any(value is ABSENT for value in values) else values
        case MapLiteral(entries=entries) if not any(entry.optional for entry in entries):
            keys = [map_key(constant(entry.key)) for entry in entries]
            values = [constant_collection(entry.value, constant) for entry in entries]
            if any(value is ABSENT for value in (*keys, *values)):
                return ABSENT
            return dict(zip(keys, values, strict=True))
    return constant(node)


def constant_steps(node: Node) -> tuple[Node, list[str]] | None:
    """What ``base.a["b"].c`` starts from and the constant names it goes along; None when there is more to it."""
    names: list[str] = []
    while True:
        match node:
            case Select(optional=False) if not node.test_only or not names:
                names.append(node.field)
                node = node.operand
            case Call(function="_[_]", args=(container, Literal(value=str() as key))):
                names.append(key)
                node = container
            case _:
                return (node, names[::-1]) if names else None
