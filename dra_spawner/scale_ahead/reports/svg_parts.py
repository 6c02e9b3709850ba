"""Elements and round figures of charts, as SVG for pages with a strict content security policy: no style, no script.

The small plotting libraries for browsers are in no Python package, and files that were fetched are not committed;
matplotlib with what it needs has 130 MB, and its pictures have styles. Bars, lines and labels need neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

_STEPS: Final = ((1, 2), (2, 5), (5, 10))


def figure_ticks(highest: float) -> Sequence[float]:
    """Three round figures from 0 to at least the highest one."""
    step = 1.0
    while step * 2 < highest:
        step = next(step * factor / last for last, factor in _STEPS if leading_digit(step) == last)
    return (0.0, step, 2 * step)


def leading_digit(figure: float) -> int:
    """The first digit of a figure that is not 0."""
    return int(f"{figure:e}"[0])


def written(figure: float) -> str:
    """A figure as axes show it."""
    return f"{figure:,.0f}" if figure == round(figure) else f"{figure:,.3g}"


def svg_text(root: Element) -> str:
    """The element for HTML, where SVG has no void elements."""
    return tostring(root, encoding="unicode", short_empty_elements=False)


def add_rect(parent: Element, x: float, y: float, width: float, height: float, **attributes: str) -> Element:
    """Add a rectangle; a negative size counts as 0. Attributes are named as in SVG; ``class_`` is ``class``."""
    numbers = {"x": x, "y": y, "width": max(width, 0), "height": max(height, 0)}
    return SubElement(parent, "rect", _attributes(numbers, attributes))


def add_line(parent: Element, x1: float, y1: float, x2: float, y2: float, **attributes: str) -> Element:
    """Add a line."""
    return SubElement(parent, "line", _attributes({"x1": x1, "y1": y1, "x2": x2, "y2": y2}, attributes))


def add_text(parent: Element, text: str, x: float, y: float, **attributes: str) -> Element:
    """Add a line of text."""
    added = SubElement(parent, "text", _attributes({"x": x, "y": y}, attributes))
    added.text = text
    return added


def _attributes(numbers: dict[str, float], others: dict[str, str]) -> dict[str, str]:
    named = {name.rstrip("_").replace("_", "-"): value for name, value in others.items()}
    return {**named, **{name: f"{number:.1f}" for name, number in numbers.items()}}
