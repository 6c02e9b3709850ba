"""Common parts of the reports' pages. The templates escape all names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tornado.template import Loader

from dra_spawner.scale_ahead.reports.miss_rows import MissRow

_TEMPLATES: Final = Loader(str(Path(__file__).parent / "templates"))


def miss_table(rows: Sequence[MissRow]) -> str:
    """A table of misses, as HTML."""
    return _TEMPLATES.load("miss_table.html").generate(rows=rows).decode()
