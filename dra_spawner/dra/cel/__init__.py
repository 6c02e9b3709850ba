"""CEL as Kubernetes evaluates it on devices (``DeviceSelector.cel``), Kubernetes 1.36.

``compile_selector(expression).matches(device)`` says what the scheduler would say, or raises what would stop it.
Functions that are not implemented are refused when compiling (:class:`CelUnsupportedError`), never guessed.
"""

from __future__ import annotations

from .device import CelDevice
from .errors import CelCompileError, CelCostLimitExceeded, CelRuntimeError, CelUnsupportedError
from .literals import cel_string_literal
from .references import Collection, Reference, referenced_attributes
from .selector import MAX_EXPRESSION_BYTES, Selector, compile_selector
from .semver import Semver, SemverError

__all__ = [
    "MAX_EXPRESSION_BYTES",
    "CelCompileError",
    "CelCostLimitExceeded",
    "CelDevice",
    "CelRuntimeError",
    "CelUnsupportedError",
    "Collection",
    "Reference",
    "Selector",
    "Semver",
    "SemverError",
    "cel_string_literal",
    "compile_selector",
    "referenced_attributes",
]
