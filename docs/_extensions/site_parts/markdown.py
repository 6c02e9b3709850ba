"""Pieces of Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

__all__ = ["cell", "paragraphs", "table"]


def cell(text: str) -> str:
    """Text for a cell of a table, on one line."""
    return " ".join(text.replace("|", "\\|").split())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where there is no row."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) + "\n"


def paragraphs(text: str) -> str:
    """A help text, which is written as in docstrings, as Markdown; mentions of pages become links."""
    text = re.sub(r"::\n", ":\n", inspect.cleandoc(text))
    text = re.sub(r"(?<![(`\w/])docs/([\w-]+/[\w-]+)\.md", r"[this page](../\1.md)", text)
    return re.sub(r"\(docs/([\w-]+/[\w-]+)\.md\)", r"([this page](../\1.md))", text) + "\n"
