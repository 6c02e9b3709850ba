"""What evaluating an expression costs at most, as the API server estimates before it accepts a selector.

It refuses what may cost more than a million (``CELSelectorExpressionMaxCost``). Costs are in the units of :mod:`.cost`.
The estimate follows cel-go's ``checker/cost.go``, its slips included, over the calls that its macros expand to.
"""

from __future__ import annotations

from typing import Final

from dra_spawner.dra.cel.cel_types import CelType, list_of
from dra_spawner.dra.cel.checker import Checked
from dra_spawner.dra.cel.estimation.estimated_calls import Argument, CallEstimate, call_estimate, sort_estimate
from dra_spawner.dra.cel.estimation.size_estimates import (
    UNKNOWN,
    Entries,
    Path,
    Size,
    add,
    device_size,
    fixed,
    multiply,
)
from dra_spawner.dra.cel.evaluation.folds import PASS_COST
from dra_spawner.dra.cel.library.cost import LIST_COST, MAP_COST
from dra_spawner.dra.cel.library.functions import Overload
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

_SCALARS: Final = frozenset(["bool", "double", "int", "uint"])
_STRUCTURES: Final = frozenset(["map", "kubernetes.DRADevice", "kubernetes.Quantity", "kubernetes.Semver"])
_QUANTIFIERS: Final = frozenset([FoldKind.ALL, FoldKind.EXISTS, FoldKind.EXISTS_ONE])
_MAPS: Final = frozenset([FoldKind.TRANSFORM_MAP, FoldKind.TRANSFORM_MAP_ENTRY])
_NO_ELEMENTS: Final = Entries(True, fixed(1), fixed(0))


def estimate_cost(checked: Checked) -> int:
    """The highest cost of an evaluation, at most 2^64 - 1."""
    return _Estimator(checked).cost(checked.root)


class _Variable:
    """What is known of a local variable."""

    __slots__ = ("entries", "path", "size")

    def __init__(self, path: Path | None, size: Size | None, entries: Entries | None) -> None:
        self.path = path
        self.size = size
        self.entries = entries


class _Estimator:
    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.variables: dict[str, _Variable] = {}
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, Entries] = {}

    def cost(self, node: Node) -> int:
        """Highest cost of a node; notes down the size of its value."""
        match node:
            case Literal():
                return 0
            case Ident():
                self.note_path(node, self.path(node) if node.name in self.variables else Path.start(node.name))
                return 1
            case Select():
                return self.select(node)
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

    def kind(self, node: Node) -> CelType:
        return self.checked.types[id(node)]

    def path(self, node: Node) -> Path | None:
        if isinstance(node, Ident) and node.name in self.variables:
            return self.variables[node.name].path
        return self.paths.get(id(node))

    def note_path(self, node: Node, path: Path | None) -> None:
        if path is None:
            self.paths.pop(id(node), None)
        else:
            self.paths[id(node)] = path

    def step(self, node: Node, step: str) -> Path:
        """The path of a node, one step on."""
        path = self.path(node)
        return Path.start(step) if path is None else path.extended(step)

    def size(self, node: Node) -> Size | None:
        """Size of a node's value, None when nothing is known of it."""
        known = self.sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        known = device_size(self.path(node))
        if known is not None:
            self.sizes[id(node)] = known
            return known
        if _is_scalar(self.kind(node)):
            return fixed(1)
        if isinstance(node, Ident) and node.name in self.variables:
            return self.variables[node.name].size
        return None

    def entry_sizes(self, node: Node) -> Entries | None:
        known = self.entries.get(id(node))
        if known is None and isinstance(node, Ident) and node.name in self.variables:
            return self.variables[node.name].entries
        return known

    def note(self, node: Node, size: Size | None, entries: Entries | None = None) -> None:
        if size is not None:
            self.sizes[id(node)] = size
        if entries is not None:
            self.entries[id(node)] = entries

    def argument(self, node: Node) -> Argument:
        """A node as the functions' estimates see it."""
        return Argument(self.kind(node), self.path(node), self.size(node), node)

    def select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        if node.optional:
            self.note(node, self.size(node))
            return add(cost, 1)
        if self.kind(node.operand).name in _STRUCTURES:
            cost = add(cost, 1)
        self.note_path(node, self.step(node.operand, node.field))
        return cost

    def call(self, node: Call) -> int:
        if node.function == "dyn":
            cost = self.cost(node.args[0])
            self.note(node, self.size(node.args[0]), self.entry_sizes(node.args[0]))
            return add(1, cost)
        costs = [self.cost(arg) for arg in node.args]
        if node.function in ("_&&_", "_||_"):
            self.note(node, fixed(1))
            return _total(costs)
        candidates = self.checked.overloads[id(node)]
        args = [self.argument(arg) for arg in node.args]
        total, target = 0, None
        if candidates[0].member:
            assert node.target is not None
            total = self.cost(node.target)
            target = self.argument(node.target)
        highest = 0
        size: Size | None = None
        found: Size | None
        for overload in candidates:
            if node.function == "_?_:_":
                highest, found = self.conditional(node, costs)
            else:
                estimate = self.function(node, overload, target, args)
                highest, found = max(highest, add(estimate.cost, _total(costs))), estimate.size
            if found is not None:
                size = found if size is None else size.union(found)
            if node.function == "_[_]" and overload.params[0].name in ("list", "map"):
                known = self.entry_sizes(node.args[0])
                size = None if known is None else known.value
                self.note_path(node, self.step(node.args[0], f"@{_PARTS[overload.params[0].name]}"))
            size = size or self.size(node)
        self.note(node, size)
        return add(total, highest)

    def conditional(self, node: Call, costs: list[int]) -> tuple[int, Size]:
        _, if_true, if_false = node.args
        known = self.entry_sizes(if_true)
        self.note(node, None, known and known.union(self.entry_sizes(if_false)))
        size = (self.size(if_true) or UNKNOWN).union(self.size(if_false) or UNKNOWN)
        return add(costs[0], max(costs[1:])), size

    def function(self, node: Call, overload: Overload, target: Argument | None, args: list[Argument]) -> CallEstimate:
        if node.function == "_+_" and overload.params[0].name in ("string", "bytes", "list"):
            known = self.entry_sizes(node.args[0])
            self.note(node, None, known and known.union(self.entry_sizes(node.args[1])))
        return call_estimate(overload, target, args)

    def list_literal(self, node: ListLiteral) -> int:
        costs = [self.cost(element) for element in node.elements]
        self.note(node, None, Entries(True, fixed(1), self.union(node.elements)))
        return add(_total(costs), LIST_COST)

    def map_literal(self, node: MapLiteral) -> int:
        cost = MAP_COST
        for entry in node.entries:
            cost = _total([cost, self.cost(entry.key), self.cost(entry.value)])
        keys = self.union(tuple(entry.key for entry in node.entries))
        self.note(node, None, Entries(False, keys, self.union(tuple(entry.value for entry in node.entries))))
        return cost

    def union(self, nodes: tuple[Node, ...]) -> Size:
        """The range over the sizes of some values."""
        sizes = [self.size(node) or UNKNOWN for node in nodes] or [fixed(0)]
        return Size(min(size.low for size in sizes), max(size.high for size in sizes))

    def bind(self, node: Bind) -> int:
        value = self.cost(node.value)
        variable = _Variable(self.path(node.value), self.size(node.value), self.entry_sizes(node.value))
        outer = self.variables
        self.variables = outer | {node.name: variable}
        body = self.cost(node.body)
        self.variables = outer
        self.note(node, self.size(node.body), self.entry_sizes(node.body))
        return _total([LIST_COST, value, body])

    def optional_map(self, node: OptionalMap) -> int:
        # target.hasValue() ? optional.of(cel.bind(name, target.value(), body)) : optional.none()
        target = self.cost(node.target)
        inner = self.kind(node.target)
        size = fixed(1) if inner.params and _is_scalar(inner.params[0]) else None
        outer = self.variables
        self.variables = outer | {node.name: _Variable(None, size, None)}
        body = self.cost(node.body)
        self.variables = outer
        bound = _total([LIST_COST, target, 1, body])
        if node.flat:
            found = self.size(node.body)
        else:
            bound = add(bound, 1)
            found = fixed(1) if _is_scalar(self.kind(node)) else None
        nothing = fixed(1) if _is_scalar(self.kind(node)) else UNKNOWN
        self.note(node, (found or UNKNOWN).union(nothing))
        return _total([target, 1, bound])

    def fold(self, node: Fold) -> int:
        if node.kind is FoldKind.SORT_BY:
            return self.sort_by(node)
        cost = self.cost(node.range)
        result = 2 if node.kind is FoldKind.EXISTS_ONE else 1
        start = 0 if node.kind in _QUANTIFIERS else MAP_COST if node.kind in _MAPS else LIST_COST
        count = self.size(node.range) or UNKNOWN
        variables = self.iteration_variables(node, node.range)
        outer = self.variables
        self.variables = outer | variables
        each = _total([self.cost(part) for part in (node.predicate, node.transform) if part is not None])
        entries = self.fold_entries(node)
        self.variables = outer
        self.note(node, fixed(1) if node.kind in _QUANTIFIERS else count, entries)
        return _total([cost, start, result, multiply(count.high, add(each, PASS_COST[node.kind]))])

    def fold_entries(self, node: Fold) -> Entries | None:
        """Sizes of what a macro collects in a list; an empty list to start with makes the lowest size 0."""
        if node.kind in _QUANTIFIERS or node.kind in _MAPS:
            return None
        if node.transform is not None:
            size = self.size(node.transform) or UNKNOWN
        else:
            size = self.variables[node.variables[0]].size or UNKNOWN
            path_size = device_size(self.variables[node.variables[0]].path)
            size = path_size or size
        return _NO_ELEMENTS.union(Entries(True, fixed(1), size))

    def iteration_variables(self, node: Fold, container: Node) -> dict[str, _Variable]:
        entries = self.entry_sizes(container)
        is_list = entries.is_list if entries is not None else self.kind(container).name == "list"
        key = None if entries is None else entries.key
        value = None if entries is None else entries.value
        if len(node.variables) == 2:
            first, second = node.variables
            return {
                first: _Variable(self.step(container, "@indices" if is_list else "@keys"), key, None),
                second: _Variable(self.step(container, "@items" if is_list else "@values"), value, None),
            }
        (name,) = node.variables
        if is_list:
            return {name: _Variable(self.step(container, "@items"), value, None)}
        return {name: _Variable(self.step(container, "@keys"), key, None)}

    def sort_by(self, node: Fold) -> int:
        # cel.bind(input, range, input.@sortByAssociatedKeys(input.map(variable, transform)))
        cost = self.cost(node.range)
        count = self.size(node.range) or UNKNOWN
        outer = self.variables
        self.variables = outer | self.iteration_variables(node, node.range)
        assert node.transform is not None
        each = add(self.cost(node.transform), PASS_COST[FoldKind.SORT_BY])
        self.variables = outer
        keys = _total([1, LIST_COST, 1, multiply(count.high, each)])
        sort = sort_estimate(list_of(self.kind(node.transform)), count)
        self.note(node, sort.size)
        return _total([LIST_COST, cost, 1, keys, sort.cost])


_PARTS: Final = {"list": "items", "map": "values"}


def _total(costs: list[int]) -> int:
    total = 0
    for cost in costs:
        total = add(total, cost)
    return total


def _literal_size(node: Node) -> Size | None:
    match node:
        case Literal(value=str() | bytes() as value):
            return fixed(len(value))
        case Literal():
            return fixed(1)
        case ListLiteral(elements=parts) | MapLiteral(entries=parts):
            return fixed(len(parts))
    return None


def _is_scalar(kind: CelType) -> bool:
    return kind.name in _SCALARS or (kind.name == "optional_type" and _is_scalar(kind.params[0]))
