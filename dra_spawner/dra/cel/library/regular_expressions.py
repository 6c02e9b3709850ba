"""Regular expressions in RE2 syntax, as Go has them: linear time whatever the pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

from dra_spawner.dra.cel.errors import CelBudgetExceeded, EvaluationError

#: Memory for a compiled pattern and for what is remembered of its matches. Go has no such limit.
MAX_PATTERN_BYTES: Final = 2**21


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    return options


_OPTIONS = _options()
# RE2's \C matches one byte; Go does not have it.
_LITERAL_TEXT: Final = re.compile(r"\\Q.*?(?:\\E|\Z)", re.DOTALL)
_BYTE_CLASS: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern.

    Raises
    ------
    EvaluationError
        When the pattern is not valid.
    CelBudgetExceeded
        When it takes too much memory.
    """
    if _BYTE_CLASS.search(_LITERAL_TEXT.sub("", pattern)):
        raise EvaluationError("error parsing regexp: invalid escape sequence: `\\C`")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in text:
            raise CelBudgetExceeded("a regular expression this large is not supported here") from None
        raise EvaluationError(f"error parsing regexp: {text}") from None


def search(pattern: str, text: str) -> Any:
    """The leftmost match anywhere in the text, or None.

    Raises
    ------
    EvaluationError
        When the pattern is not valid.
    """
    return compile_pattern(pattern).search(text)


def find_all(pattern: str, text: str, limit: int = -1) -> list[str]:
    """All matches that do not overlap, at most ``limit`` of them unless that is negative.

    An empty match right after another match does not count (Go's rule).

    Raises
    ------
    EvaluationError
        When the pattern is not valid.
    """
    compiled = compile_pattern(pattern)
    data = text.encode()  # once, not for each match
    found: list[str] = []
    position, previous_end = 0, -1
    while position <= len(data) and len(found) != limit:
        match = compiled.search(data, position)
        if match is None:
            break
        start, end = match.span()
        if end > start or start != previous_end:
            found.append(data[start:end].decode())
        position = end + _width(data, end) if end == position else end
        previous_end = end
    return found


def _width(data: bytes, position: int) -> int:
    """Bytes of the character there."""
    lead = data[position] if position < len(data) else 0
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
