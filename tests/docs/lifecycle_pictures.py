"""The tables of `lifecycle` as pictures: a column for each state, an arrow for each transition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar
from xml.sax.saxutils import escape

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, RESERVATION, TICKET, Transition

__all__ = ["pictures"]

StateT = TypeVar("StateT", bound=StrEnum)
EventT = TypeVar("EventT", bound=StrEnum)

_COLUMN, _ROW, _TOP, _SIDE = 200, 46, 84, 110
_LOOP: Final = 26
#: Width of a letter of the labels.
_LETTER: Final = 7.1
_END: Final = "gone"


def pictures() -> dict[str, str]:
    """SVG by file name."""
    return {
        "placeholder-states.svg": _svg(PLACEHOLDER, "The states of a placeholder"),
        "reservation-states.svg": _svg(RESERVATION, "The states of a reservation"),
        "ticket-states.svg": _svg(TICKET, "The states of a ticket"),
    }


def _svg(table: Mapping[StateT, Mapping[EventT, Transition[StateT]]], title: str) -> str:
    arrows = [(state.value, end, label) for state, transitions in table.items() for end, label in _arrows(transitions)]
    columns = [*(state.value for state in table), *([_END] if any(end == _END for _, end, _ in arrows) else [])]
    at = {name: _SIDE + _COLUMN * number for number, name in enumerate(columns)}
    width, height = 2 * _SIDE + _COLUMN * (len(columns) - 1), _TOP + _ROW * len(arrows) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" font-family="sans-serif" font-size="13" fill="#1f2328">',
        f"<title>{title}</title>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#48525d"/></marker></defs>',
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="#ffffff" stroke="#d5dbe1"/>',
    ]
    for name, x in at.items():
        lines += _column(name, x, height)
    for number, (begin, end, label) in enumerate(arrows):
        lines += _arrow(at[begin], at[end], _TOP + _ROW * number + 28, label, width)
    return "\n".join((*lines, "</svg>", ""))


def _arrows(transitions: Mapping[EventT, Transition[StateT]]) -> Iterator[tuple[str, str]]:
    """Ends with their labels: all events with the same end and the same action as one."""
    found: dict[tuple[str, str], list[str]] = {}
    for event, each in transitions.items():
        found.setdefault((each.state.value if each.state else _END, each.action or ""), []).append(event.value)
    for (end, action), events in found.items():
        yield end, ", ".join(events) + (f" / {action}" if action else "")


def _column(name: str, x: int, height: int) -> Iterator[str]:
    box = 'width="140" height="36" rx="18" fill="#f3f6fa" stroke="#3a74b0" stroke-width="1.5"'
    yield f'<line x1="{x}" y1="52" x2="{x}" y2="{height - 14}" stroke="#9aa7b5" stroke-dasharray="3 4"/>'
    yield f'<rect x="{x - 70}" y="16" {box}/>'
    yield f'<text x="{x}" y="39" text-anchor="middle" font-size="15">{escape(name)}</text>'


def _arrow(begin: int, end: int, y: int, label: str, width: int) -> Iterator[str]:
    path = f"M{begin} {y}H{end}" if begin != end else f"M{begin} {y - 5}h{_LOOP}v10h-{_LOOP}"
    yield f'<path d="{path}" fill="none" stroke="#48525d" stroke-width="1.5" marker-end="url(#a)"/>'
    half = len(label) * _LETTER / 2
    middle = min(max((begin + end) / 2, half + 12), width - half - 12)
    # The line of a column is hidden behind the words.
    halo = 'stroke="#ffffff" stroke-width="4" paint-order="stroke"'
    yield f'<text x="{middle:.0f}" y="{y - 11}" text-anchor="middle" {halo}>{escape(label)}</text>'
