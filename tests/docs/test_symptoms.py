"""The sentences of docs/how-to/troubleshooting.md are sentences of the code."""

from __future__ import annotations

import ast
import re

from tests.docs.pages import ROOT

TEXT = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
SENTENCES = [
    sentence for row in re.findall(r'^\| (".+?") \|', TEXT, re.M) for sentence in re.findall(r'"([^"]+)"', row)
]


def spoken(node: ast.AST) -> str:
    """A text of the code, with an ellipsis for each value."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join("…" if isinstance(each, ast.FormattedValue) else spoken(each) for each in values)
    return ""


def texts() -> str:
    """Every text of the code."""
    found = []
    for path in (ROOT / "dra_spawner").rglob("*.py"):
        found += [spoken(node) for node in ast.walk(ast.parse(path.read_text()))]
    # Logging and str.format have values of their own kinds.
    return "\n".join(re.sub(r"%[a-z]|\{[a-z_]+\}", "…", text) for text in found if len(text) > 10)


def test_the_code_says_each_sentence() -> None:
    assert len(SENTENCES) > 30
    said = texts()
    assert [part for each in SENTENCES for part in each.split("…") if part.strip(" .:") not in said] == []
