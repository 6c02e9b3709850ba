"""Text from others, for pages and pictures."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """A text in one line that XML and UTF-8 can have; what cannot be printed becomes U+FFFD. It is not escaped."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
