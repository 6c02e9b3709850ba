"""Input that cannot be read."""

from __future__ import annotations

from typing import Final

_LONGEST_FIELD: Final = 500
_LONGEST_PROBLEM: Final = 1_000


class InputError(Exception):
    """Raised for input that is no API object, or no JSON or YAML, so that there is no answer.

    Attributes
    ----------
    file
        Path, or ``standard input``.
    line
        Counted from one; 0 where there is none.
    field
        Path of the field, such as ``items[3].spec.devices``; empty for the whole input.
    problem
        The problem, as the end of a sentence.
    """

    def __init__(self, file: str, line: int, field: str, problem: str) -> None:
        self.file = file
        self.line = line
        self.field = field
        self.problem = problem
        place = f"{file}, line {line}" if line else file
        parts = (
            _harmless(place, _LONGEST_FIELD),
            _harmless(field, _LONGEST_FIELD),
            _harmless(problem, _LONGEST_PROBLEM),
        )
        super().__init__(": ".join(part for part in parts if part))


def _harmless(text: str, longest: int) -> str:
    """Text of a file made fit for a sentence: on one line, without control characters, shortened."""
    if len(text) > longest:
        text = f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
