"""From the text of a selector to a program: parsing, types, Kubernetes' own checks, the estimate of its cost."""

from __future__ import annotations

from dra_spawner.dra.cel.cel_types import ANY, BOOL, DYN
from dra_spawner.dra.cel.checker import check
from dra_spawner.dra.cel.errors import CelCompileError, CelTooComplexError
from dra_spawner.dra.cel.estimation.estimate import estimate_cost
from dra_spawner.dra.cel.evaluation.compiler import Program, compile_checked
from dra_spawner.dra.cel.library.cost import COST_LIMIT
from dra_spawner.dra.cel.syntax.parser import parse
from dra_spawner.dra.cel.validators import validate

__all__ = ["compile_program"]


def compile_program(expression: str, *, list_attributes: bool) -> Program:
    """Compile a selector, see `dra_spawner.dra.cel.selector.compile_selector`.

    Raises
    ------
    CelCompileError
        When it is no valid selector, or uses what is not implemented here.
    RecursionError
        When it is nested too deeply.
    """
    checked = check(parse(expression), expression, list_attributes=list_attributes)
    validate(checked, expression)
    accepted = (BOOL, ANY, DYN) if list_attributes else (BOOL, ANY)
    if checked.type_of_result not in accepted:
        kind = str(checked.type_of_result).replace("any", "google.protobuf.Any")
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {kind}")
    estimate = estimate_cost(checked)
    if estimate > COST_LIMIT:
        raise CelTooComplexError(estimate)
    return compile_checked(checked)
