"""From a checked tree to Python closures."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from dra_spawner.dra.cel.checker import Checked
from dra_spawner.dra.cel.errors import (
    CelBudgetExceeded,
    CelCompileError,
    CelRuntimeError,
    CelUnsupportedError,
    EvaluationError,
)
from dra_spawner.dra.cel.evaluation import closures, metering
from dra_spawner.dra.cel.evaluation.budget import ELEMENT_BYTES
from dra_spawner.dra.cel.evaluation.closures import Closure, Locals
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.evaluation.folds import fold
from dra_spawner.dra.cel.evaluation.paths import PathCompiler
from dra_spawner.dra.cel.evaluation.shapes import constant_collection, constant_members, needs_meter
from dra_spawner.dra.cel.library.cost import LIST_COST, MAP_COST
from dra_spawner.dra.cel.library.functions import implementation_for
from dra_spawner.dra.cel.library.operators import list_contains
from dra_spawner.dra.cel.library.regular_expressions import compile_pattern
from dra_spawner.dra.cel.semver import Semver
from dra_spawner.dra.cel.syntax.nodes import (
    Bind,
    Call,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    Node,
    OptionalMap,
    Select,
)
from dra_spawner.dra.cel.values import ABSENT, NONE, OptionalValue, TypeValue, Value, map_key, no_overload

_CONVERSIONS: Final = frozenset(["bool", "bytes", "double", "dyn", "int", "string", "type", "uint"])
_PATTERN_FUNCTIONS: Final = frozenset(["matches", "find", "findAll"])
#: Kubernetes computes their cost from arguments that must not be errors.
_CRASHING: Final = frozenset(["distinct", "sort"])
_PARSERS: Final = frozenset(["quantity", "semver"])


class Program:
    """A compiled expression and how many local variables it needs."""

    __slots__ = ("closure", "local_count")

    def __init__(self, closure: Closure, local_count: int) -> None:
        self.closure = closure
        self.local_count = local_count

    def run(self, device: CelDevice) -> Value:
        """Evaluate.

        Raises
        ------
        CelRuntimeError
            When it fails.
        """
        return self.closure(device, [0] * self.local_count)


def compile_checked(checked: Checked, *, always_metered: bool = False) -> Program:
    """Compile.

    Parameters
    ----------
    checked
        What the checker found out.
    always_metered
        Whether to count costs even where they cannot reach a limit.

    Raises
    ------
    CelCompileError
        When a constant part of the expression cannot be evaluated (the API server says "program instantiation
        failed").
    """
    compiler = _Compiler(checked, metered=always_metered or needs_meter(checked.root))
    closure = compiler.compile(checked.root)
    return Program(closure, compiler.local_count)


class _Compiler(PathCompiler):
    def compile(self, node: Node) -> Closure:
        match node:
            case Literal():
                return closures.constant(node.value)
            case Ident() | Select():
                return self.path(node)
            case Call():
                return self.call(node)
            case ListLiteral():
                return self.list_literal(node)
            case MapLiteral():
                return self.map_literal(node)
            case Fold():
                return self.fold(node)
            case Bind():
                return self.bind(node)
            case OptionalMap():
                return self.optional_map(node)

    def call(self, node: Call) -> Closure:
        match node.function:
            case "_[_]" | "_[?_]" | "_?_:_":
                return self.path(node)
            case "_&&_" | "_||_":
                return closures.conjunction([self.compile(arg) for arg in node.args], node.function == "_||_")
        parts = self.call_parts(node)
        function = self.checked.overloads[id(node)][0].function
        if function in ("orValue", "or"):
            combine = closures.or_value if function == "orValue" else closures.or_optional
            return combine(*map(self.compile, parts))
        converted = self.constant_value(node)
        if converted is not ABSENT:
            return closures.constant(converted)
        if function in _PATTERN_FUNCTIONS and isinstance(parts[1], Literal):
            _require_pattern(parts[1].value)
        if function == "@in" and (members := constant_members(parts[1])) is not None:
            return self.membership(parts[0], members)
        if not self.metered:
            special = self.operator(node, function, parts)
            if special is not None:
                return special
        args = [self.compile(part) for part in parts]
        if function in _CRASHING:
            args = [closures.fatal(arg) for arg in args]
        make = metering.metered_call if self.metered else closures.call
        return make(self.checked.overloads[id(node)], args)

    def call_parts(self, node: Call) -> tuple[Node, ...]:
        """Arguments, the target first where it is one."""
        overload = self.checked.overloads[id(node)][0]
        if overload.member:
            assert node.target is not None
            return (node.target, *node.args)
        return node.args

    def constant_value(self, node: Node) -> Value:
        """Value of a literal or of a conversion of one, else ABSENT; these are computed once, when compiling."""
        if isinstance(node, Literal):
            return node.value
        if isinstance(node, Ident) and node.name != "device" and node.name not in self.variables:
            return TypeValue(node.name)
        if not isinstance(node, Call) or node.function not in _CONVERSIONS or len(node.args) != 1:
            return ABSENT
        value = constant_collection(node.args[0], self.constant_value)
        if value is ABSENT:
            return ABSENT
        overload = implementation_for(self.checked.overloads[id(node)], (type(value),))
        try:
            if overload is None:
                raise no_overload()
            return overload.implementation(value)
        except EvaluationError as error:
            raise CelCompileError(f"program instantiation failed: {error}") from None

    def operator(self, node: Call, function: str, parts: tuple[Node, ...]) -> Closure | None:
        """Faster code for what most selectors consist of."""
        match function:
            case "_==_":
                return self.equality(parts)
            case "_!=_":
                return closures.inequality(*map(self.compile, parts))
            case "!_":
                return closures.negation(self.compile(parts[0]))
            case "matches" if isinstance(parts[1], Literal):
                return self.matches(parts[0], parts[1].value)
            case _ if function in _PARSERS and len(parts) == 1 and isinstance(parts[0], Literal):
                return self.parsed_constant(node, parts[0].value)
        return None

    def equality(self, parts: tuple[Node, ...]) -> Closure:
        left, right = map(self.compile, parts)
        second = parts[1]
        if isinstance(second, Literal) and type(second.value) in (str, int, bool):
            return closures.equality_with_constant(left, second.value)
        return closures.equality(left, right)

    def membership(self, needle: Node, members: list[Value]) -> Closure:
        closure = self.compile(needle)
        if not members:
            return closures.constant(False)  # the element is not even evaluated
        texts = frozenset(member for member in members if type(member) is str)
        integers = frozenset(members) if all(type(member) is int for member in members) else None

        def run(device: CelDevice, local: Locals) -> bool:
            value = closure(device, local)
            if type(value) is str:
                return value in texts
            if integers is not None and type(value) is int:
                return value in integers
            if type(value) in (bytes, Semver):
                # Kubernetes looks constants up in a hash table, and these have no hash there.
                raise EvaluationError("internal error: value cannot be looked up among constants")
            spend(local, len(members) // 4, 0)
            return list_contains(value, members)

        spend = metering.spend if self.metered else metering.no_spending
        return run

    def matches(self, text: Node, pattern: str) -> Closure:
        closure = self.compile(text)
        search = compile_pattern(pattern).search
        # Devices repeat their texts a lot, and a look-up costs a twentieth of a match.
        found = lru_cache(maxsize=512)(lambda value: search(value) is not None)

        def run(device: CelDevice, local: Locals) -> bool:
            value = closure(device, local)
            if type(value) is not str:
                raise no_overload()
            return found(value)

        return run

    def parsed_constant(self, node: Call, text: str) -> Closure | None:
        try:
            value = self.checked.overloads[id(node)][0].implementation(text)
        except EvaluationError:
            return None  # an error each time it is evaluated, not one of compilation
        return closures.constant(value)

    def list_literal(self, node: ListLiteral) -> Closure:
        constants = constant_collection(node, self.constant_value)
        if constants is not ABSENT:
            return closures.constant(constants)
        elements = [(self.compile(element), index in node.optional) for index, element in enumerate(node.elements)]

        def with_optionals(device: CelDevice, local: Locals) -> list[Value]:
            values: list[Value] = []
            for element, optional in elements:
                value = element(device, local)
                if optional:
                    value = _optional(value)
                    if not value.present:
                        continue
                    value = value.value
                values.append(value)
            return values

        plain = [element for element, _ in elements]

        def run(device: CelDevice, local: Locals) -> list[Value]:
            return [element(device, local) for element in plain]

        return self.built(with_optionals if node.optional else run, LIST_COST, len(elements))

    def built(self, closure: Closure, cost: int, count: int) -> Closure:
        """The code that makes a list or map of so many parts."""
        if not self.metered:
            return closure
        return metering.charged(metering.spending(closure, count // 4, ELEMENT_BYTES * count), cost)

    def map_literal(self, node: MapLiteral) -> Closure:
        def compile_entry(entry: MapEntry) -> tuple[Closure, Closure, bool]:
            return self.compile(entry.key), self.compile(entry.value), entry.optional

        constants = constant_collection(node, self.constant_value)
        if constants is not ABSENT:
            return closures.constant(constants)
        entries = [compile_entry(entry) for entry in node.entries]

        def run(device: CelDevice, local: Locals) -> dict[Value, Value]:
            result: dict[Value, Value] = {}
            for key_closure, value_closure, optional in entries:
                key = map_key(key_closure(device, local))
                value = value_closure(device, local)
                if key is ABSENT:
                    raise CelRuntimeError("map keys of this type are not supported here")
                if optional:
                    value = _optional(value)
                    if not value.present:
                        result.pop(key, None)
                        continue
                    value = value.value
                result[key] = value
            return result

        return self.built(run, MAP_COST, 2 * len(entries))

    def fold(self, node: Fold) -> Closure:
        container = metering.charged_success(self.compile(node.range), 1)
        slots = [self.new_slot() for _ in node.variables]
        outer = self.variables
        self.variables = outer | {
            name: closures.slot_reader(slot) for name, slot in zip(node.variables, slots, strict=True)
        }
        predicate = None if node.predicate is None else self.compile(node.predicate)
        transform = None if node.transform is None else self.compile(node.transform)
        constant = node.transform is not None and constant_collection(node.transform, self.constant_value) is not ABSENT
        self.variables = outer
        return fold(node.kind, container, slots, predicate, transform, constant_transform=constant)

    def bind(self, node: Bind) -> Closure:
        slot = self.new_slot()
        value = self.compile(node.value)
        outer = self.variables
        self.variables = outer | {node.name: closures.lazy_reader(slot, value)}
        body = self.compile(node.body)
        self.variables = outer

        def run(device: CelDevice, local: Locals) -> Value:
            local[slot] = closures.PENDING
            return body(device, local)

        return run

    def optional_map(self, node: OptionalMap) -> Closure:
        slot, spent = self.new_slot(), self.new_slot()
        target = self.compile(node.target)
        outer = self.variables
        again = metering.charged_again(slot, spent) if self.metered else closures.slot_reader(slot)
        self.variables = outer | {node.name: again}
        body = self.compile(node.body)
        self.variables = outer
        flat = node.flat

        def run(device: CelDevice, local: Locals) -> Value:
            before = local[0]
            value = _optional(target(device, local))
            if not value.present:
                return NONE
            local[slot] = value.value
            local[spent] = local[0] - before + 1
            result = body(device, local)
            return result if flat else OptionalValue(result)

        return self.charged(run, 1 if flat else 2)


def _optional(value: Value) -> OptionalValue:
    if type(value) is not OptionalValue:
        raise no_overload()
    return value


def _require_pattern(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except CelBudgetExceeded as error:
        raise CelUnsupportedError(str(error)) from None
    except EvaluationError as error:
        raise CelCompileError(f"program instantiation failed: {error}") from None
