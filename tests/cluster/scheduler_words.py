"""kube-scheduler's messages in the words that all tested releases have in common."""

from __future__ import annotations

import re

__all__ = ["in_common_words"]

#: Words of 1.36 about claims, which 1.37 leaves out; and words of 1.37 about a selector that fails.
_ONLY_SOME = re.compile(
    r"(?:still not schedulable|no new claims to deallocate), "
    r"| on device \S+(?=: CEL runtime error)"
    r"|\. consider using CEL optional chaining .*$"
)


def in_common_words(message: str) -> str:
    """Return a scheduler's message without what only some releases say."""
    return _ONLY_SOME.sub("", message)
