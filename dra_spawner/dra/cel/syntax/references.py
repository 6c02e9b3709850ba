"""Which attributes and capacities an expression reads, and whether it makes sure that they are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from dra_spawner.dra.cel.syntax.nodes import Bind, Call, Fold, Ident, Literal, Node, OptionalMap, Select, children
from dra_spawner.dra.cel.syntax.parser import parse


class Collection(StrEnum):
    """The two maps of a device."""

    ATTRIBUTES = "attributes"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class Reference:
    """One attribute or capacity that an expression reads."""

    collection: Collection

    domain: str | None
    """Its domain; None when the expression computes it (``device.attributes[device.driver]``)."""

    name: str

    guarded: bool
    """Whether each read is safe where the device lacks it: behind ``has()`` or ``in``, or optional."""


_COLLECTIONS: Final = frozenset(collection.value for collection in Collection)
_Domain = tuple[Collection, str | None]
_Name = tuple[Collection, str | None, str]
_Aliases = Mapping[str, _Domain | None]


@lru_cache(maxsize=512)
def referenced_attributes(expression: str) -> tuple[Reference, ...]:
    """What the expression reads by name, in the order of first mention.

    Tests of presence alone (``has()``, ``in``) are not reads. Names that are computed, and those that macros go
    over, are not seen.

    Raises
    ------
    CelCompileError
        When the expression cannot be parsed; types are not checked.
    """
    reads: dict[_Name, bool] = {}
    _Reader(reads).visit(parse(expression), {}, frozenset())
    return tuple(Reference(*name, guarded) for name, guarded in reads.items())


@lru_cache(maxsize=512)
def qualified_keys(expression: str) -> tuple[tuple[Collection, str], ...]:
    """Keys with a slash that are looked up in ``device.attributes`` or ``device.capacity``, whose keys are domains.

    Raises
    ------
    CelCompileError
        When the expression cannot be parsed.
    """
    found: dict[tuple[Collection, str], None] = {}
    if "/" in expression:
        _find_qualified(parse(expression), found)
    return tuple(found)


def _find_qualified(node: Node, found: dict[tuple[Collection, str], None]) -> None:
    match node:
        case (
            Call(function="_[_]" | "_[?_]", args=(container, Literal(value=str() as key)))
            | Call(function="@in", args=(Literal(value=str() as key), container))
        ) if "/" in key:
            match _step(container):
                case (Ident(name="device"), str() as collection) if collection in _COLLECTIONS:
                    found[Collection(collection), key] = None
    for child in children(node):
        _find_qualified(child, found)


class _Reader:
    def __init__(self, reads: dict[_Name, bool]) -> None:
        self.reads = reads

    def visit(self, node: Node, aliases: _Aliases, guards: frozenset[_Name]) -> None:
        name = _name(node, aliases)
        if name is not None:
            self.reads[name] = self.reads.get(name, True) and (name in guards or _is_optional(node))
        match node:
            case Call(function="_&&_" | "_||_"):
                present = node.function == "_&&_"
                for term in node.args:
                    others = (other for other in node.args if other is not term)
                    self.visit(term, aliases, guards.union(*(_known(other, aliases, present) for other in others)))
            case Call(function="_?_:_", args=(condition, if_true, if_false)):
                self.visit(condition, aliases, guards)
                self.visit(if_true, aliases, guards | _known(condition, aliases, True))
                self.visit(if_false, aliases, guards | _known(condition, aliases, False))
            case Select(test_only=True):
                self.visit(node.operand, aliases, guards)
            case Bind():
                self.visit(node.value, aliases, guards)
                self.visit(node.body, {**aliases, node.name: _domain(node.value, aliases)}, guards)
            case Fold():
                self.visit(node.range, aliases, guards)
                inner = {**aliases, **dict.fromkeys(node.variables)}
                for part in (node.predicate, node.transform):
                    if part is not None:
                        self.visit(part, inner, guards)
            case OptionalMap():
                self.visit(node.target, aliases, guards)
                self.visit(node.body, {**aliases, node.name: None}, guards)
            case _:
                self.visit_all(children(node), aliases, guards)

    def visit_all(self, nodes: Iterable[Node], aliases: _Aliases, guards: frozenset[_Name]) -> None:
        for node in nodes:
            self.visit(node, aliases, guards)


def _step(node: Node) -> tuple[Node, str | None] | None:
    """What a select or an index looks into, and the key if that is constant."""
    match node:
        case Select(test_only=False):
            return node.operand, node.field
        case Call(function="_[_]" | "_[?_]", args=(container, key)):
            return container, key.value if isinstance(key, Literal) and isinstance(key.value, str) else None
    return None


def _is_optional(node: Node) -> bool:
    """Whether a step of the path is optional; then so are all after it."""
    if isinstance(node, Select):
        return node.optional or _is_optional(node.operand)
    if isinstance(node, Call) and node.function in ("_[_]", "_[?_]"):
        return node.function == "_[?_]" or _is_optional(node.args[0])
    return False


def _domain(node: Node, aliases: _Aliases) -> _Domain | None:
    """The domain that an expression stands for: ``device.attributes["x"]`` or a name bound to it."""
    if isinstance(node, Ident):
        return aliases.get(node.name)
    step = _step(node)
    if step is None:
        return None
    container, domain = step
    match _step(container):
        case (Ident(name="device"), str() as collection) if collection in _COLLECTIONS and "device" not in aliases:
            return Collection(collection), domain
    return None


def _name(node: Node, aliases: _Aliases) -> _Name | None:
    """The attribute or capacity that an expression stands for."""
    step = _step(node)
    if step is None or step[1] is None:
        return None
    domain = _domain(step[0], aliases)
    return None if domain is None else (*domain, step[1])


def _known(node: Node, aliases: _Aliases, outcome: bool) -> frozenset[_Name]:
    """What is certainly there when the expression is true (or false)."""
    match node:
        case Select(test_only=True) if outcome:
            domain = _domain(node.operand, aliases)
            return frozenset() if domain is None else frozenset([(*domain, node.field)])
        case Call(function="@in", args=(Literal(value=str() as name), container)) if outcome:
            domain = _domain(container, aliases)
            return frozenset() if domain is None else frozenset([(*domain, name)])
        case Call(function="!_", args=(inner,)):
            return _known(inner, aliases, not outcome)
        case Call(function="_&&_") if outcome:
            return frozenset().union(*(_known(term, aliases, True) for term in node.args))
        case Call(function="_||_") if not outcome:
            return frozenset().union(*(_known(term, aliases, False) for term in node.args))
    return frozenset()
