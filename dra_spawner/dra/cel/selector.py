"""Selectors: the expressions of requests and device classes.

The compiler is imported with the first expression: it is the largest part of this package, and a hub without
expressions does without it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from dra_spawner.dra.cel.errors import (
    CelBudgetExceeded,
    CelCompileError,
    CelRuntimeError,
    CelUnsupportedError,
)
from dra_spawner.dra.cel.evaluation.budget import MAX_STEPS
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.values import type_name

if TYPE_CHECKING:
    from dra_spawner.dra.cel.evaluation.closures import Locals
    from dra_spawner.dra.cel.evaluation.compiler import Program

#: ``resource.k8s.io`` CELSelectorExpressionMaxLength.
MAX_EXPRESSION_BYTES: Final = 10 * 1024


class Selector:
    """A compiled expression. Made by :func:`compile_selector`; holds no state of an evaluation."""

    __slots__ = ("_closure", "_locals", "expression", "list_attributes")

    expression: str
    list_attributes: bool

    def __init__(self, expression: str, program: Program, list_attributes: bool) -> None:
        self.expression = expression
        self.list_attributes = list_attributes
        self._closure = program.closure
        self._locals = program.local_count

    def matches(self, device: CelDevice) -> bool:
        """Whether the device is selected.

        Raises
        ------
        CelRuntimeError
            When that cannot be said: an attribute is missing, types do not fit, the limit of cost is reached. The
            scheduler gives the pod up then.
        CelBudgetExceeded
            When it takes more than is spent on one evaluation here. What the scheduler says is not known then.
        """
        outcome, _ = self.evaluate(device)
        if isinstance(outcome, CelRuntimeError):
            raise outcome
        return outcome

    def evaluate(self, device: CelDevice) -> tuple[bool | CelRuntimeError, int]:
        """Whether the device is selected, or why that cannot be said; and steps, 0 where they are not counted."""
        if device.error is not None:
            return device.error, 0
        local: Locals = [0] * self._locals
        try:
            result = self._closure(device, local)
        except RecursionError:
            return CelBudgetExceeded("nesting this deep is not supported here"), MAX_STEPS
        except CelRuntimeError as error:
            return error.with_traceback(None), local[0] + local[1]
        if result is True or result is False:
            return bool(result), local[0] + local[1]
        kind = type_name(result)
        return CelRuntimeError(f"CEL result of type {kind} could not be converted to bool"), local[0] + local[1]

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


def compile_selector(expression: str, *, list_attributes: bool = False) -> Selector:
    """Compile a selector; the last ones are cached.

    Parameters
    ----------
    expression
        CEL, at most :data:`MAX_EXPRESSION_BYTES` as UTF-8.
    list_attributes
        Whether attributes may hold lists (the DRAListTypeAttributes feature gate).

    Raises
    ------
    CelUnsupportedError
        When it uses something of Kubernetes' CEL that is not implemented here.
    CelTooComplexError
        When it may cost more than the API server accepts.
    CelCompileError
        When it is no valid selector.
    """
    return _compile(expression, list_attributes)


# A large one takes hundreds of kilobytes.
@lru_cache(maxsize=512)
def _compile(expression: str, list_attributes: bool) -> Selector:
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise CelCompileError("the expression is not Unicode text", error.start + 1) from None
    if size > MAX_EXPRESSION_BYTES:
        raise CelCompileError(f"the expression is too long: {size} bytes, at most {MAX_EXPRESSION_BYTES}")
    # Imported here: see the module's docstring.
    from dra_spawner.dra.cel.compilation import compile_program

    try:
        program = compile_program(expression, list_attributes=list_attributes)
        return Selector(expression, program, list_attributes)
    except RecursionError:
        raise CelUnsupportedError("nesting this deep is not supported here") from None
