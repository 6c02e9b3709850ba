"""The table of endpoints and callers in docs/reference/api.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "reference" / "api.md"


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip("|\n ").split("|")]


def _table() -> dict[tuple[str, str], dict[str, str]]:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    begin = next(number for number, line in enumerate(lines) if _cells(line)[0] == "endpoint")
    _, *callers = _cells(lines[begin])
    found = {}
    for line in lines[begin + 2 :]:
        endpoint, *cells = _cells(line)
        method, _, address = endpoint.strip("`").partition(" ")
        if not method.isupper():
            break
        found[method, address] = dict(zip(callers, cells, strict=True))
    return found


TABLE: Final = _table()
"""By method and address: the status with which each caller is refused, or ``yes``."""
