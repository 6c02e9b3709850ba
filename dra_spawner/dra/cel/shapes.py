"""What the compiler wants to know of the form of an expression."""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.nodes import Bind, Call, Fold, ListLiteral, Literal, Node, OptionalMap, Select, children
from dra_spawner.dra.cel.values import Value

__all__ = ["constant_members", "constant_steps", "needs_meter"]

#: Functions whose result may be longer than their arguments together with what a binding repeats.
_GROWING: Final = frozenset(["_+_", "join", "replace", "format", "flatten", "map", "strings.quote"])


def needs_meter(root: Node) -> bool:
    """Whether an evaluation can reach the cost limit.

    Each part of an expression without loops runs once at most, and 10 KiB of it stay far below the limit; unless
    a binding doubles the size of its value again and again.
    """
    binds = grows = False
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Fold) or (isinstance(node, Call) and node.function == "range"):
            return True
        binds = binds or isinstance(node, Bind | OptionalMap)
        grows = grows or (isinstance(node, Call) and node.function in _GROWING)
        pending += children(node)
    return binds and grows


def constant_members(node: Node) -> list[Value] | None:
    """Values of a list of constants of the simple types."""
    if not isinstance(node, ListLiteral) or node.optional:
        return None
    values = [element.value for element in node.elements if isinstance(element, Literal)]
    return values if len(values) == len(node.elements) else None


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
