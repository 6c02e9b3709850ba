"""The tables of `lifecycle` as Markdown.

``python -m ... FILE`` puts them into a document, and its pictures into the folder ``pictures`` beside the document's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, RESERVATION, TICKET, Transition
from tests.docs.lifecycle_pictures import pictures

__all__ = ["markdown_tables", "with_tables"]

StateT = TypeVar("StateT", bound=StrEnum)
EventT = TypeVar("EventT", bound=StrEnum)

_BEGIN: Final = "<!-- by python -m tests.docs.lifecycle_tables docs/reference/placeholder-states.md: begin -->"
_END: Final = "<!-- end -->"


def markdown_tables() -> str:
    """All tables, each with its picture: state, events, next state, and the action of the executor."""
    return (
        "![The states of a placeholder, with an arrow for each row of the table](../pictures/placeholder-states.svg)"
        f"\n\n{_markdown(PLACEHOLDER)}\n\n"
        "![The states of a reservation, with an arrow for each row of the table](../pictures/reservation-states.svg)"
        f"\n\n{_markdown(RESERVATION)}\n\n"
        "![The states of a ticket, with an arrow for each row of the table](../pictures/ticket-states.svg)"
        f"\n\n{_markdown(TICKET)}"
    )


def with_tables(document: str) -> str:
    """A document with the present tables between its two marks.

    Raises
    ------
    ValueError
        When the marks are not there once.
    """
    found, count = re.subn(
        f"(?s){re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: f"{_BEGIN}\n\n{markdown_tables()}\n\n{_END}", document
    )
    if count != 1:
        raise ValueError(f"{count} times {_BEGIN} with {_END} after it, where once is expected")
    return found


def _markdown(table: Mapping[StateT, Mapping[EventT, Transition[StateT]]]) -> str:
    """One row for all events with the same end and the same action; the first state comes first."""
    lines = ["| state | event | next state | what the service does |", "|---|---|---|---|"]
    for state, transitions in table.items():
        rows: dict[tuple[str, str], list[str]] = {}
        for event, each in transitions.items():
            rows.setdefault((each.state or "", each.action or ""), []).append(event)
        for (end, action), events in rows.items():
            cells = (_code(state), ", ".join(map(_code, events)), _code(end) or "it is gone", _code(action))
            lines.append("| " + " | ".join(cells) + " |")
        if not transitions:
            lines.append(f"| {_code(state)} | | it is gone | |")
    return "\n".join(lines)


def _code(word: str) -> str:
    return f"`{word}`" if word else ""


if __name__ == "__main__":
    for _name in sys.argv[1:]:
        Path(_name).write_text(with_tables(Path(_name).read_text()))
        for _picture, _svg in pictures().items():
            (Path(_name).parents[1] / "pictures" / _picture).write_text(_svg)
