"""Types of all expressions, and the errors the API server would report."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Never

from dra_spawner.dra.cel.cel_types import (
    ANY,
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    QUANTITY,
    STRING,
    UINT,
    CelType,
    Substitution,
    is_dynamic,
    list_of,
    map_of,
    max_general,
    optional_of,
    type_of,
)
from dra_spawner.dra.cel.errors import CelUnsupportedError
from dra_spawner.dra.cel.library import kubernetes_functions, list_functions, standard_functions, string_functions
from dra_spawner.dra.cel.library.functions import FUNCTIONS, Overload
from dra_spawner.dra.cel.library.kubernetes_functions import UNSUPPORTED
from dra_spawner.dra.cel.syntax.lexer import position_error
from dra_spawner.dra.cel.syntax.nodes import (
    Bind,
    Call,
    Fold,
    FoldKind,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    OptionalMap,
    Select,
)
from dra_spawner.dra.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The modules that fill the function table.
_LIBRARIES: Final = (kubernetes_functions, list_functions, standard_functions, string_functions)

_LITERAL_TYPES: Final = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}
_TYPE_NAMES: Final = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "string": STRING,
    "type": type_of("type"),
    "uint": UINT,
    "optional_type": optional_of(DYN),
}
_KEY_TYPES: Final = frozenset(["bool", "double", "dyn", "any", "int", "string", "uint"])


@dataclass(slots=True)
class Checked:
    """The result of the checker."""

    root: Node
    types: dict[int, CelType] = field(default_factory=dict)
    """Type of each node, by ``id(node)``."""

    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    """The overloads that each call may turn out to be, by ``id(node)``."""

    type_of_result: CelType = DYN


def check(root: Node, source: str, *, list_attributes: bool = False) -> Checked:
    """Check an expression.

    Parameters
    ----------
    root
        The parsed expression.
    source
        Its text, for positions.
    list_attributes
        Whether attributes may be lists (DRAListTypeAttributes): their type is ``dyn`` then and otherwise ``any``,
        over which no macro can go.

    Raises
    ------
    CelCompileError
        At the first thing that cannot be right.
    """
    assert all(_LIBRARIES), "imported for what they declare"
    checker = _Checker(source, DYN if list_attributes else ANY)
    checked = Checked(root, checker.types, checker.overloads)
    kind = checker.visit(root)
    for key, known in checker.types.items():
        checker.types[key] = checker.known.apply(known, to_dyn=True)
    checked.type_of_result = checker.known.apply(kind, to_dyn=True)
    return checked


class _Checker:
    def __init__(self, source: str, attribute: CelType) -> None:
        self.source = source
        self.known = Substitution()
        self.types: dict[int, CelType] = {}
        self.overloads: dict[int, tuple[Overload, ...]] = {}
        self.variables: dict[str, CelType] = {"device": DEVICE}
        self.fields = {
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, attribute)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
            "allowMultipleAllocations": BOOL,
        }

    def fail(self, offset: int, message: str) -> Never:
        raise position_error(self.source, offset, message)

    def unsupported(self, offset: int, what: str) -> Never:
        error = position_error(self.source, offset, f"{what} is not supported here")
        raise CelUnsupportedError(error.message, error.column, error.line)

    def visit(self, node: Node) -> CelType:
        match node:
            case Call():
                kind = self.call(node)
            case Select():
                kind = self.select(node)
            case Ident():
                kind = self.identifier(node)
            case Literal():
                kind = _LITERAL_TYPES[type(node.value)]
            case ListLiteral():
                kind = self.list_literal(node)
            case MapLiteral():
                kind = self.map_literal(node)
            case Fold():
                kind = self.fold(node)
            case Bind():
                value = self.visit(node.value)
                with self.scope({node.name: value}):
                    kind = self.visit(node.body)
            case OptionalMap():
                kind = self.optional_map(node)
        self.types[id(node)] = kind
        return kind

    @contextmanager
    def scope(self, variables: dict[str, CelType]) -> Iterator[None]:
        outer = self.variables
        self.variables = outer | variables
        yield
        self.variables = outer

    def identifier(self, node: Ident) -> CelType:
        kind = self.variables.get(node.name)
        if kind is not None:
            return kind
        if node.name not in _TYPE_NAMES:
            self.undeclared(node.offset, node.name)
        return type_of("type", _TYPE_NAMES[node.name])

    def undeclared(self, offset: int, name: str) -> Never:
        if name in UNSUPPORTED:
            self.unsupported(offset, f"{name}()")
        self.fail(offset, f"undeclared reference to '{name}' (in container '')")

    def select(self, node: Select) -> CelType:
        operand = self.known.apply(self.visit(node.operand))
        optional = node.optional
        if operand.name == "optional_type":
            operand, optional = operand.params[0], True
        if operand == DEVICE:
            if node.field not in self.fields:
                self.fail(node.offset, f"undefined field '{node.field}'")
            result = self.fields[node.field]
        elif operand.name == "map":
            result = operand.params[1]
        elif operand.is_param:
            self.known.assign((DYN,), (operand,))
            result = DYN
        elif is_dynamic(operand) or operand == ERROR:
            result = DYN
        else:
            self.fail(node.offset, f"type '{operand}' does not support field selection")
        if node.test_only:
            return BOOL
        return self.known.apply(optional_of(result) if optional else result)

    def call(self, node: Call) -> CelType:
        args = tuple([self.visit(arg) for arg in node.args])
        if node.function in ("_&&_", "_||_"):
            for arg, kind in zip(node.args, args, strict=True):
                self.require_bool(arg, kind)
            return BOOL
        if node.target is None:
            return self.resolve(node, node.function, args, member=False)
        prefix = _qualified_name(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in UNSUPPORTED:
            self.unsupported(node.offset, f"{prefix}.{node.function}()")
        if prefix is not None and f"{prefix}.{node.function}" in FUNCTIONS:
            return self.resolve(node, f"{prefix}.{node.function}", args, member=False)
        if prefix == "format" and "format" not in self.variables:
            self.unsupported(node.offset, f"format.{node.function}()")
        return self.resolve(node, node.function, (self.visit(node.target), *args), member=True)

    def resolve(self, node: Call, name: str, args: tuple[CelType, ...], *, member: bool) -> CelType:
        """Type of a call, after noting down which overloads it may be."""
        declared = FUNCTIONS.get(name)
        if declared is None:
            self.undeclared(node.offset, name)
        candidates: list[Overload] = []
        result: CelType | None = None
        for overload in declared:
            if overload.member != member or len(overload.params) != len(args):
                continue
            params, overload_result = self.instantiate(overload)
            if not self.known.assign(args, params):
                continue
            candidates.append(overload)
            kind = self.known.apply(overload_result)
            if result is None:
                result = kind
            elif not is_dynamic(result) and kind != result:
                result = DYN
        if result is None:
            if name in UNSUPPORTED:
                self.unsupported(node.offset, f"{name}()")
            self.no_overload(node.offset, name, args, member=member)
        self.overloads[id(node)] = tuple(candidates)
        return result

    def instantiate(self, overload: Overload) -> tuple[tuple[CelType, ...], CelType]:
        """Parameters and result with type variables of their own."""
        if not any(param.open for param in overload.params) and not overload.result.open:
            return overload.params, overload.result
        fresh: dict[str, CelType] = {}
        return tuple(self.renamed(param, fresh) for param in overload.params), self.renamed(overload.result, fresh)

    def renamed(self, kind: CelType, fresh: dict[str, CelType]) -> CelType:
        if not kind.open:
            return kind
        if kind.is_param:
            if kind.name not in fresh:
                fresh[kind.name] = self.known.fresh()
            return fresh[kind.name]
        return type_of(kind.name, *(self.renamed(param, fresh) for param in kind.params))

    def no_overload(self, offset: int, name: str, args: tuple[CelType, ...], *, member: bool) -> Never:
        shown = [str(self.known.apply(arg, to_dyn=True)) for arg in args]
        target = f"{shown.pop(0)}." if member else ""
        self.fail(offset, f"found no matching overload for '{name}' applied to '{target}({', '.join(shown)})'")

    def require_bool(self, node: Node, kind: CelType) -> None:
        if not self.known.assign((kind,), (BOOL,)):
            shown = self.known.apply(kind, to_dyn=True)
            self.fail(node.offset, f"expected type 'bool' but found '{shown}'")

    def join(self, previous: CelType | None, current: CelType) -> CelType:
        if previous is None:
            return current
        return max_general(previous, current) if self.known.assign((previous,), (current,)) else DYN

    def unwrapped(self, node: Node) -> CelType:
        """Type inside of the optional that an element with a question mark must be."""
        kind = self.visit(node)
        if kind.name == "optional_type":
            return kind.params[0]
        if not is_dynamic(kind):
            self.fail(node.offset, f"expected type '{optional_of(kind)}' but found '{kind}'")
        return kind

    def list_literal(self, node: ListLiteral) -> CelType:
        kind: CelType | None = None
        for index, element in enumerate(node.elements):
            kind = self.join(kind, self.unwrapped(element) if index in node.optional else self.visit(element))
        return list_of(self.known.fresh() if kind is None else kind)

    def map_literal(self, node: MapLiteral) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for entry in node.entries:
            key_type = self.known.apply(self.visit(entry.key))
            if key_type.name not in _KEY_TYPES and not key_type.is_param:
                self.unsupported(entry.key.offset, f"a map key of type {key_type}")
            key = self.join(key, key_type)
            value = self.join(value, self.unwrapped(entry.value) if entry.optional else self.visit(entry.value))
        return map_of(
            self.known.fresh() if key is None else key,
            self.known.fresh() if value is None else value,
        )

    def fold(self, node: Fold) -> CelType:
        container = self.known.apply(self.visit(node.range))
        with self.scope(dict(zip(node.variables, self.iteration_types(node, container), strict=True))):
            first = self.variables[node.variables[0]]
            predicate = None if node.predicate is None else self.visit(node.predicate)
            transform = DYN if node.transform is None else self.visit(node.transform)
        result = self.known.apply(self.fold_result(node, container, first, transform))
        if node.predicate is not None and predicate is not None:
            if node.kind in (FoldKind.ALL, FoldKind.EXISTS):
                self.require_bool(node.predicate, predicate)
            elif not self.known.assign((predicate,), (BOOL,)):
                accumulator = INT if node.kind is FoldKind.EXISTS_ONE else result
                self.no_overload(node.offset, "_?_:_", (predicate, accumulator, accumulator), member=False)
        return result

    def iteration_types(self, node: Fold, container: CelType) -> tuple[CelType, ...]:
        two = len(node.variables) == 2
        match container.name:
            case "list":
                return (INT, container.params[0]) if two else container.params
            case "map":
                return container.params if two else container.params[:1]
        if container != DYN and not container.is_param:
            self.fail(
                node.range.offset,
                f"expression of type '{container}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        self.known.assign((DYN,), (container,))
        return (DYN,) * len(node.variables)

    def fold_result(self, node: Fold, container: CelType, first: CelType, transform: CelType) -> CelType:
        match node.kind:
            case FoldKind.MAP | FoldKind.TRANSFORM_LIST:
                return list_of(transform)
            case FoldKind.FILTER:
                return list_of(first)
            case FoldKind.TRANSFORM_MAP:
                return map_of(first, transform)
            case FoldKind.TRANSFORM_MAP_ENTRY:
                entries = map_of(self.known.fresh(), self.known.fresh())
                if not self.known.assign((transform,), (entries,)):
                    self.no_overload(node.offset, "cel.@mapInsert", (entries, transform), member=False)
                return entries
            case FoldKind.SORT_BY:
                call = Call(node.offset, "@sortByAssociatedKeys", node.range, ())
                return self.resolve(call, call.function, (container, list_of(transform)), member=True)
            case FoldKind.ALL | FoldKind.EXISTS | FoldKind.EXISTS_ONE:
                return BOOL

    def optional_map(self, node: OptionalMap) -> CelType:
        target = self.visit(node.target)
        value = Call(node.offset, "value", node.target, ())
        self.resolve(value, "hasValue", (target,), member=True)
        inner = self.resolve(value, "value", (target,), member=True)
        with self.scope({node.name: inner}):
            body = self.visit(node.body)
        result = body if node.flat else optional_of(body)
        nothing = optional_of(self.known.fresh())
        conditional = Call(node.offset, "_?_:_", None, ())
        return self.resolve(conditional, "_?_:_", (BOOL, result, nothing), member=False)


def _qualified_name(node: Node) -> str | None:
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test_only and not node.optional:
        prefix = _qualified_name(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None
