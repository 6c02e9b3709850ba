"""Printable text for pages and pictures."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with U+FFFD for each character that is not printable, so that XML allows it. It is not escaped."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
