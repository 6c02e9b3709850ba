"""CEL as Kubernetes evaluates it on devices (``DeviceSelector.cel``), Kubernetes 1.36.

``compile_selector(expression).matches(device)`` says what the scheduler would say, or raises what would stop it.
Functions that are not implemented are refused when compiling (:class:`CelUnsupportedError`), and an evaluation that
takes too much time or memory is given up (:class:`CelBudgetExceeded`): a verdict is never guessed.
"""

from __future__ import annotations

from dra_spawner.dra.cel.errors import (
    CelBudgetExceeded,
    CelCompileError,
    CelCostLimitExceeded,
    CelRuntimeError,
    CelTooComplexError,
    CelUnsupportedError,
)
from dra_spawner.dra.cel.evaluation.device import CelDevice
from dra_spawner.dra.cel.selector import MAX_EXPRESSION_BYTES, Selector, compile_selector
from dra_spawner.dra.cel.semver import Semver, SemverError
from dra_spawner.dra.cel.syntax.literals import cel_string_literal

__all__ = [
    "MAX_EXPRESSION_BYTES",
    "CelBudgetExceeded",
    "CelCompileError",
    "CelCostLimitExceeded",
    "CelDevice",
    "CelRuntimeError",
    "CelTooComplexError",
    "CelUnsupportedError",
    "Selector",
    "Semver",
    "SemverError",
    "cel_string_literal",
    "compile_selector",
]
