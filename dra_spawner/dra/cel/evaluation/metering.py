"""Closures that count what an evaluation uses, and end it at its limits; see :mod:`.budget` and :mod:`.cost`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dra_spawner.dra.cel.errors import CelBudgetExceeded, CelCostLimitExceeded, EvaluationError
from dra_spawner.dra.cel.evaluation.budget import MAX_STEPS, bytes_of, refuse_bytes
from dra_spawner.dra.cel.evaluation.closures import FAILED, Closure, Locals
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.evaluation.work import work_of
from dra_spawner.dra.cel.library.cost import COST_LIMIT, NAMED
from dra_spawner.dra.cel.library.functions import Overload, implementation_for
from dra_spawner.dra.cel.values import NONE, OptionalValue, Value, no_overload


def charge(local: Locals, amount: int) -> None:
    """Add to the cost of this evaluation.

    Raises
    ------
    CelCostLimitExceeded
        When it has become more than Kubernetes allows.
    CelBudgetExceeded
        When it has become more than is spent on it here.
    """
    local[0] += amount
    if local[0] > MAX_STEPS:
        if local[0] > COST_LIMIT:
            raise CelCostLimitExceeded("operation cancelled: actual cost limit exceeded")
        raise CelBudgetExceeded(f"evaluating it takes more than {MAX_STEPS} steps")


def spend(local: Locals, values: int, size: int) -> None:
    """Take values to look at and bytes to build from the budget of this evaluation.

    Raises
    ------
    CelBudgetExceeded
        When too little is left.
    """
    local[1] += values
    if local[1] > MAX_STEPS:
        raise CelBudgetExceeded(f"evaluating it takes more than {MAX_STEPS} steps")
    local[2] += size
    refuse_bytes(local[2])


def charged(closure: Closure, amount: int) -> Closure:
    """The closure, costing that much more; also where it fails."""

    def run(device: CelDevice, local: Locals) -> Value:
        try:
            value = closure(device, local)
        except EvaluationError:
            charge(local, amount)
            raise
        charge(local, amount)
        return value

    return run


def charged_success(closure: Closure, amount: int) -> Closure:
    """The closure, costing that much more unless it fails."""

    def run(device: CelDevice, local: Locals) -> Value:
        value = closure(device, local)
        charge(local, amount)
        return value

    return run


def no_spending(local: Locals, values: int, size: int) -> None:
    """Replaces :func:`spend` where no limit can be reached."""


def spending(closure: Closure, values: int, size: int) -> Closure:
    """The closure, after taking that much from the budget."""

    def run(device: CelDevice, local: Locals) -> Value:
        spend(local, values, size)
        return closure(device, local)

    return run


def metered_step(container: Closure, key: Closure, step: Callable[[Value, Value], Value], *, optional: bool) -> Closure:
    """A look-up that is charged, unless there is nothing where it is optional."""

    def run(device: CelDevice, local: Locals) -> Value:
        value = container(device, local)
        if type(value) is OptionalValue and not value.present:
            return value  # the key is not evaluated then
        try:
            result = step(value, key(device, local))
        except EvaluationError:
            if not optional:
                charge(local, 1)
            raise
        if result is not NONE:
            charge(local, 1)
        return result

    return run


def charged_again(slot: int, spent: int) -> Closure:
    """Reads the value inside of an optional, whose computation Kubernetes repeats when it is read first."""

    def read(device: CelDevice, local: Locals) -> Value:
        if local[spent]:
            charge(local, local[spent])
            local[spent] = 0
        return local[slot]

    return read


def metered_call(candidates: Sequence[Overload], args: Sequence[Closure]) -> Closure:
    """As :func:`call`, charging what the call costs, and evaluating a second argument though the first failed."""

    def run(device: CelDevice, local: Locals) -> Value:
        values: list[Value] = []
        error: EvaluationError | None = None
        for arg in args:
            try:
                values.append(arg(device, local))
            except EvaluationError as problem:
                if (ambiguous and named) or len(args) > 2:
                    raise
                error = error or problem
                values.append(FAILED)
        overload = implementation_for(candidates, tuple(map(type, values)))
        result = FAILED
        if error is None:
            try:
                if overload is None:
                    raise no_overload()
                values_seen, size = work_of(overload.function, values)
                spend(local, values_seen, size)
                result = overload.implementation(*values)
                if not size:
                    spend(local, 0, bytes_of(result))
            except EvaluationError as problem:
                error = problem
        charge(local, (overload or candidates[0]).cost(values, result) if counted else 1)
        if error is not None:
            raise error
        return result

    ambiguous = len(candidates) > 1
    named = candidates[0].function in NAMED
    counted = named or not ambiguous
    return run
