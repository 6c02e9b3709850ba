"""Input that cannot be read."""

from __future__ import annotations

__all__ = ["InputError"]


class InputError(Exception):
    """Input that is no API object, or no JSON or YAML at all: nothing is judged.

    Attributes
    ----------
    file
        Path, or ``standard input``.
    line
        Counted from one; 0 where there is none.
    field
        Path of the field, for example ``items[3].spec.devices``; empty where it is about the whole.
    problem
        What is wrong.
    """

    def __init__(self, file: str, line: int, field: str, problem: str) -> None:
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        place = f"{file}, line {line}" if line else file
        super().__init__(": ".join(part for part in (place, field, problem) if part))
