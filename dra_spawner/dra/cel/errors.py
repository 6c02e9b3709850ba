"""What can go wrong with a selector."""

from __future__ import annotations


class CelError(Exception):
    """Any error of this package."""


class CelCompileError(CelError, ValueError):
    """The expression is not valid: the API server refuses the object, the scheduler the pod.

    Parameters
    ----------
    message
        What is wrong, in the API server's words where it has some.
    column
        Position in the line, in characters, the first is 1.
    line
        Line of the expression, the first is 1.
    """

    def __init__(self, message: str, column: int = 1, line: int = 1) -> None:
        super().__init__(message, column, line)
        self.message = message
        self.column = column
        self.line = line

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"


class CelTooComplexError(CelCompileError):
    """The expression may cost more than the API server accepts.

    Parameters
    ----------
    estimate
        What it may cost.
    """

    def __init__(self, estimate: int) -> None:
        super().__init__("too complex, exceeds cost limit")
        self.estimate = estimate


class CelUnsupportedError(CelCompileError):
    """Kubernetes knows this function, type or syntax, and this implementation does not: no verdict is possible."""


class CelRuntimeError(CelError):
    """The evaluation failed. This is not "no match": the scheduler gives the whole pod up."""


class EvaluationError(CelRuntimeError):
    """A failure inside the expression; ``||``, ``&&``, ``all`` and ``exists`` absorb it when the rest decides."""


class CelCostLimitExceeded(CelRuntimeError):
    """The evaluation did more work than Kubernetes allows; nothing absorbs this."""


class CelBudgetExceeded(CelRuntimeError):
    """The evaluation takes more than this implementation spends on one: no verdict is possible.

    Kubernetes may have one. Nothing absorbs this.
    """
