"""Diagrams of the tables in `lifecycle`, and ``python -m ... FILE``, which puts them into a document."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, RESERVATION, Transition

__all__ = ["diagrams", "with_diagrams"]

StateT = TypeVar("StateT", bound=StrEnum)
EventT = TypeVar("EventT", bound=StrEnum)

_BEGIN: Final = "<!-- by python -m dra_spawner.placeholders.lifecycle_diagram docs/reference/placeholders.md: begin -->"
_END: Final = "<!-- end -->"


def diagrams() -> str:
    """Both tables as Mermaid state diagrams: events, and after a slash the action of the executor."""
    return f"A placeholder:\n\n{_mermaid(PLACEHOLDER)}\n\nA reservation:\n\n{_mermaid(RESERVATION)}"


def with_diagrams(document: str) -> str:
    """A document with the present diagrams between its two marks.

    Raises
    ------
    ValueError
        When the marks are not there once.
    """
    found, count = re.subn(
        f"(?s){re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: f"{_BEGIN}\n\n{diagrams()}\n\n{_END}", document
    )
    if count != 1:
        raise ValueError(f"{count} times {_BEGIN} with {_END} after it, where once is expected")
    return found


def _mermaid(table: Mapping[StateT, Mapping[EventT, Transition[StateT]]]) -> str:
    """One arrow for all events with the same end and the same action."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for state, transitions in table.items():
        arrows: dict[tuple[str, str], list[str]] = {}
        for event, each in transitions.items():
            arrows.setdefault((each.state or "[*]", f" / {each.action}" if each.action else ""), []).append(event)
        lines += [f"    {state} --> {end}: {', '.join(events)}{action}" for (end, action), events in arrows.items()]
        if not transitions:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    for _name in sys.argv[1:]:
        Path(_name).write_text(with_diagrams(Path(_name).read_text()))
