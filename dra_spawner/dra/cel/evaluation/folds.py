"""The loops behind ``all``, ``exists``, ``map`` and the other macros."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.evaluation.closures import Closure, Locals, constant, fatal
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.evaluation.metering import charge
from dra_spawner.dra.cel.library.cost import LIST_COST
from dra_spawner.dra.cel.library.functions import FUNCTIONS, implementation_for
from dra_spawner.dra.cel.syntax.nodes import FoldKind
from dra_spawner.dra.cel.values import Value, from_map_key, map_key, no_overload, type_name

#: Cost of a pass besides predicate and transform: in Kubernetes it reads, tests and extends an accumulator.
PASS_COST: Final = {
    FoldKind.ALL: 3,
    FoldKind.EXISTS: 4,
    FoldKind.EXISTS_ONE: 2,
    FoldKind.MAP: 2 + LIST_COST,
    FoldKind.FILTER: 3 + LIST_COST,
    FoldKind.TRANSFORM_LIST: 2 + LIST_COST,
    FoldKind.TRANSFORM_MAP: 3,
    FoldKind.TRANSFORM_MAP_ENTRY: 2,
    FoldKind.SORT_BY: 2 + LIST_COST,
}
# Cost of seeing that a quantifier is decided, unless it was decided by the last element.
_DECIDED_COST: Final = {False: 2, True: 3}


def fold(
    kind: FoldKind,
    container: Closure,
    slots: Sequence[int],
    predicate: Closure | None,
    transform: Closure | None,
    *,
    constant_transform: bool = False,
) -> Closure:
    """The closure of a macro.

    Parameters
    ----------
    kind
        Which.
    container
        The list or map to go over.
    slots
        Where the one or two variables live.
    predicate, transform
        What the macro was given of them.
    constant_transform
        Whether the transform is a constant: then nothing is counted for the list that it is put in.
    """
    always: Closure = predicate or _always
    body: Closure = transform or _always
    cost = PASS_COST[kind]
    if constant_transform and kind in (FoldKind.MAP, FoldKind.TRANSFORM_LIST):
        cost -= LIST_COST
    passes = _passes(container, slots)
    selected = _selected(passes, always, cost)
    match kind:
        case FoldKind.ALL:
            return _quantifier(passes, always, cost, decisive=False)
        case FoldKind.EXISTS:
            return _quantifier(passes, always, cost, decisive=True)
        case FoldKind.EXISTS_ONE:
            return _exists_one(selected)
        case FoldKind.FILTER:
            return _filter(selected, slots[0])
        case FoldKind.MAP | FoldKind.TRANSFORM_LIST:
            return _transform_list(selected, body)
        case FoldKind.TRANSFORM_MAP:
            return _transform_map(selected, body, slots[0])
        case FoldKind.TRANSFORM_MAP_ENTRY:
            return _transform_entries(selected, body)
        case FoldKind.SORT_BY:
            return _sort_by(container, body, slots)


Passes = Callable[[CelDevice, Locals], Iterator[None]]


def _always(device: CelDevice, local: Locals) -> bool:
    return True


def _pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    """Index and element, or key and value."""
    if type(value) is list:
        return enumerate(value)
    if isinstance(value, dict):
        return [(from_map_key(key), inner) for key, inner in value.items()]
    raise EvaluationError(f"unsupported comprehension range type: {type_name(value)}")


def _elements(value: Value) -> Iterable[Value]:
    if type(value) is list:
        return value
    if isinstance(value, dict):
        return [from_map_key(key) for key in value]
    raise EvaluationError(f"got '{type_name(value)}', expected iterable type")


def _passes(container: Closure, slots: Sequence[int]) -> Passes:
    """Sets the variables for one element after the other."""

    def single(device: CelDevice, local: Locals) -> Iterator[None]:
        for value in _elements(container(device, local)):
            local[slot] = value
            yield

    def double(device: CelDevice, local: Locals) -> Iterator[None]:
        for value, other in _pairs(container(device, local)):
            local[slot] = value
            local[slots[1]] = other
            yield

    slot = slots[0]
    return single if len(slots) == 1 else double


def _selected(passes: Passes, predicate: Closure, cost: int) -> Passes:
    """The passes whose predicate holds."""

    def run(device: CelDevice, local: Locals) -> Iterator[None]:
        for _ in passes(device, local):
            value = predicate(device, local)
            if value is True:
                charge(local, cost)
                yield
            elif value is not False:
                raise no_overload()

    return run


def _quantifier(passes: Passes, predicate: Closure, cost: int, *, decisive: bool) -> Closure:
    def run(device: CelDevice, local: Locals) -> bool:
        error: EvaluationError | None = None
        remaining = passes(device, local)
        for _ in remaining:
            charge(local, cost)
            try:
                value = predicate(device, local)
                if value is decisive:
                    if any(True for _ in remaining):
                        charge(local, _DECIDED_COST[decisive])
                    return not undecided
                if type(value) is not bool:
                    raise no_overload()
            except EvaluationError as problem:
                error = error or problem
        if error is not None:
            raise error
        return undecided

    undecided = not decisive
    return run


def _exists_one(passes: Passes) -> Closure:
    def run(device: CelDevice, local: Locals) -> bool:
        charge(local, 1)
        return sum(1 for _ in passes(device, local)) == 1

    return run


def _filter(passes: Passes, slot: int) -> Closure:
    return lambda device, local: [local[slot] for _ in passes(device, local)]


def _transform_list(passes: Passes, transform: Closure) -> Closure:
    return lambda device, local: [transform(device, local) for _ in passes(device, local)]


def _transform_map(passes: Passes, transform: Closure, slot: int) -> Closure:
    return lambda device, local: {map_key(local[slot]): transform(device, local) for _ in passes(device, local)}


def _transform_entries(passes: Passes, transform: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> Value:
        result: dict[Value, Value] = {}
        for _ in passes(device, local):
            entries = transform(device, local)
            if not isinstance(entries, dict):
                raise no_overload()
            for key, value in entries.items():
                if key in result:
                    raise EvaluationError(f"insert failed: key {from_map_key(key)} already exists")
                result[key] = value
        return result

    return run


def _sort_by(container: Closure, key: Closure, slots: Sequence[int]) -> Closure:
    def run(device: CelDevice, local: Locals) -> Value:
        values = fatal(container)(device, local)
        passes = _selected(_passes(constant(values), slots), _always, PASS_COST[FoldKind.SORT_BY])
        keys = fatal(_transform_list(passes, key))(device, local)
        overload = implementation_for(FUNCTIONS["@sortByAssociatedKeys"], (type(values), type(keys)))
        if overload is None:
            raise no_overload()
        result = overload.implementation(values, keys)
        charge(local, overload.cost((values, keys), result) + 2)
        return result

    return run
