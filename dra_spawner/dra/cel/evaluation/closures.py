"""Building blocks of compiled expressions: functions that take the device and the local variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from dra_spawner.dra.cel.errors import CelRuntimeError, EvaluationError
from dra_spawner.dra.cel.evaluation.access import missing
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.library.functions import Implementation, Overload, implementation_for
from dra_spawner.dra.cel.library.operators import ORDERED, equals
from dra_spawner.dra.cel.values import OptionalValue, Value, no_overload

#: Local variables; the first three are what was used so far, where that is metered: Kubernetes' cost, values looked at
#: by single calls, and bytes built.
Locals: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[CelDevice, Locals], Value]

_PLAIN: Final = ORDERED - {float}


class _Pending:
    """A binding that was not needed yet, or whose value could not be computed."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError | None = None) -> None:
        self.error = error


#: Stands for what could not be computed where costs are counted.
FAILED: Final = _Pending()
#: What a binding's slot holds before its value is needed.
PENDING: Final = _Pending()


def constant(value: Value) -> Closure:
    return lambda device, local: value


def fatal(closure: Closure) -> Closure:
    """The closure, its errors absorbed by nothing: they make Kubernetes' cost tracker crash."""

    def run(device: CelDevice, local: Locals) -> Value:
        try:
            return closure(device, local)
        except EvaluationError as error:
            raise CelRuntimeError(f"internal error: {error}") from None

    return run


def device_attribute(domain: str, name: str) -> Closure:
    def read(device: CelDevice, local: Locals) -> Value:
        try:
            return device.attributes[domain][name]
        except KeyError:
            raise missing(name) from None

    return read


def device_capacity(domain: str, name: str) -> Closure:
    def read(device: CelDevice, local: Locals) -> Value:
        try:
            return device.capacity[domain][name]
        except KeyError:
            raise missing(name) from None

    return read


def slot_reader(slot: int) -> Closure:
    return lambda device, local: local[slot]


def lazy_reader(slot: int, compute: Closure) -> Closure:
    """Reads a binding; computes it when it is read first."""

    def read(device: CelDevice, local: Locals) -> Value:
        value = local[slot]
        if type(value) is not _Pending:
            return value
        if value.error is not None:
            raise value.error
        try:
            value = local[slot] = compute(device, local)
        except EvaluationError as error:
            local[slot] = _Pending(error)
            raise
        return value

    return read


def negation(operand: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> bool:
        value = operand(device, local)
        if value is True:
            return False
        if value is False:
            return True
        raise no_overload()

    return run


def conjunction(terms: Sequence[Closure], decisive: bool) -> Closure:
    """``&&`` (decided by False) or ``||`` (decided by True): what decides wins over errors, wherever they are."""

    def pair(device: CelDevice, local: Locals) -> bool:
        try:
            value = first(device, local)
        except EvaluationError as error:
            return decided_or(error, second, device, local)
        if value is decisive:
            return not undecided
        other = second(device, local)
        if other is decisive or (value is other and value is undecided):
            return bool(other)
        raise no_overload()

    def decided_or(error: EvaluationError, term: Closure, device: CelDevice, local: Locals) -> bool:
        try:
            if term(device, local) is decisive:
                return not undecided
        except EvaluationError:
            pass
        raise error

    def many(device: CelDevice, local: Locals) -> bool:
        error: EvaluationError | None = None
        for term in terms:
            try:
                value = term(device, local)
                if value is decisive:
                    return not undecided
                if value is not undecided:
                    raise no_overload()
            except EvaluationError as problem:
                error = error or problem
        if error is not None:
            raise error
        return undecided

    undecided = not decisive
    if len(terms) != 2:
        return many
    first, second = terms
    return pair


def conditional(condition: Closure, if_true: Closure, if_false: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> Value:
        value = condition(device, local)
        if value is True:
            return if_true(device, local)
        if value is False:
            return if_false(device, local)
        raise no_overload()

    return run


def equality(left: Closure, right: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> bool:
        return equals(left(device, local), right(device, local))

    return run


def equality_with_constant(operand: Closure, constant_value: Value) -> Closure:
    """``operand == constant`` for a constant string, int or bool."""
    kind = type(constant_value)
    assert kind in _PLAIN

    def run(device: CelDevice, local: Locals) -> bool:
        value = operand(device, local)
        if type(value) is kind:
            return bool(value == constant_value)
        return equals(value, constant_value)

    return run


def inequality(left: Closure, right: Closure) -> Closure:
    """``!=``: values that cannot be compared are different."""

    def run(device: CelDevice, local: Locals) -> bool:
        one, other = left(device, local), right(device, local)
        try:
            return not equals(one, other)
        except EvaluationError:
            return True

    return run


def or_value(optional: Closure, default: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> Value:
        value = optional(device, local)
        if type(value) is not OptionalValue:
            return value
        return value.value if value.present else default(device, local)

    return run


def or_optional(optional: Closure, other: Closure) -> Closure:
    def run(device: CelDevice, local: Locals) -> Value:
        value = optional(device, local)
        if type(value) is not OptionalValue or value.present:
            return value
        return other(device, local)

    return run


class Dispatch(dict[Any, Implementation]):
    """Python types of the arguments to the implementation; fills itself."""

    __slots__ = ("candidates",)

    def __init__(self, candidates: Sequence[Overload]) -> None:
        super().__init__()
        self.candidates = candidates

    def __missing__(self, kinds: Any) -> Implementation:
        overload = implementation_for(self.candidates, kinds if isinstance(kinds, tuple) else (kinds,))
        if overload is None:
            raise no_overload()
        self[kinds] = overload.implementation
        return overload.implementation


def call(candidates: Sequence[Overload], args: Sequence[Closure]) -> Closure:
    """Call of whichever overload takes the values."""
    table = Dispatch(candidates)

    def none(device: CelDevice, local: Locals) -> Value:
        return table[()]()

    def one(device: CelDevice, local: Locals) -> Value:
        value = first(device, local)
        return table[type(value)](value)

    def two(device: CelDevice, local: Locals) -> Value:
        value, other = first(device, local), second(device, local)
        return table[type(value), type(other)](value, other)

    def more(device: CelDevice, local: Locals) -> Value:
        values = [arg(device, local) for arg in args]
        return table[tuple(map(type, values))](*values)

    match args:
        case []:
            return none
        case [first]:
            return one
        case [first, second]:
            return two
    return more
