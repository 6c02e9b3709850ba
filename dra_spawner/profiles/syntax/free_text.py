"""Whether a user's text matches an administrator's pattern, in time that is linear in the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

__all__ = ["MAX_FREE_TEXT", "matches_whole"]

MAX_FREE_TEXT: Final = 1_024
"""Maximum length of a user's text in an option; names of images need a few hundred characters."""

_MAX_BACKTRACKING: Final = 20
"""Characters of a text that Python's own expressions are asked about: 2**20 steps are a second at worst."""


def matches_whole(pattern: str, text: str) -> bool:
    """Whether the whole text matches.

    RE2 takes linear time. A pattern that it does not know (with a look-ahead or a back-reference) is asked of Python,
    for short texts only: ``(a+)+$`` and the like take time that doubles with each character.
    """
    if len(text) > MAX_FREE_TEXT:
        return False
    compiled = _compiled(pattern)
    if compiled is not None:
        return bool(compiled.fullmatch(text))
    return len(text) <= _MAX_BACKTRACKING and bool(re.fullmatch(pattern, text))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
