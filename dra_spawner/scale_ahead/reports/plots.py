"""Pictures of reports, as SVG in the page's colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from itertools import pairwise
from math import log10
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.scale_ahead.reports.printable import printable
from dra_spawner.scale_ahead.reports.svg_parts import add_line, add_rect, add_text, figure_ticks, svg_text, written
from dra_spawner.scale_ahead.reports.timeline import Steps

_INK: Final = "var(--plot-ink)"
_MUTED: Final = "var(--plot-muted)"
_LINE: Final = "var(--plot-line)"
_DEMAND: Final = "var(--plot-demand)"
_MISSED: Final = "var(--plot-missed)"
_WARM: Final = "var(--plot-warm)"
_TARGET: Final = "var(--plot-target)"
_NODES: Final = "var(--plot-nodes)"

_WIDTH: Final = 860.0
_LEFT: Final = 56.0
_RIGHT: Final = 10.0
_TITLE: Final = 24.0
_GAP: Final = 14.0
_AXIS: Final = 24.0
_PANEL: Final = 104.0
_FRONTIER: Final = 330.0
_SIZE: Final = "12"
_SMALL: Final = "10"
#: Width of a letter, about.
_LETTER: Final = 6.4
_HIT_RATES: Final = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999)
#: Limit of the hit rate in the plot.
_BEST: Final = 0.99995
_LONGEST_NAME: Final = 40
#: Hours between labels of the time axis, and their least distance.
_TICK_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672, 1344, 2688)
_TICK_PIXELS: Final = 64
_DAY_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class PolicyPoint:
    """Idle hours and hit rate of a policy."""

    name: str
    idle_hours_a_day: float
    hit_rate: float


def frontier_svg(policies: Sequence[PolicyPoint], fixed: Sequence[PolicyPoint]) -> str:
    """Hit rate against idle placeholder-hours: a point for each policy, and the curve of fixed numbers.

    Parameters
    ----------
    fixed
        Points of fixed numbers, in increasing order; the number is the name.
    """
    root = _picture("Hit rate against idle placeholder-hours", _TITLE + _FRONTIER + 2 * _AXIS)
    top, bottom = _TITLE, _TITLE + _FRONTIER
    right = max((each.idle_hours_a_day for each in (*policies, *fixed)), default=0.0) or 1.0
    highest = max((_nines(each.hit_rate) for each in (*policies, *fixed)), default=1.0) + 0.25

    def x(hours: float) -> float:
        return _LEFT + (hours / right + 0.02) / 1.08 * (_WIDTH - _LEFT - _RIGHT)

    def y(hit_rate: float) -> float:
        return bottom - (bottom - top) * (_nines(hit_rate) + 0.06) / (highest + 0.06)

    add_text(root, "launches that find a warm placeholder", 2, 14, fill=_INK, font_size=_SIZE)
    for rate in _HIT_RATES:
        if _nines(rate) <= highest:
            add_line(root, _LEFT, y(rate), _WIDTH - _RIGHT, y(rate), stroke=_LINE)
            _figure(root, f"{100 * rate:g} %", _LEFT - 6, y(rate) + 4)
    ticks = figure_ticks(right)
    for hours in (*ticks[:1], ticks[1] / 2, ticks[1], 1.5 * ticks[1], *ticks[2:]):
        if x(hours) <= _WIDTH - _RIGHT:
            add_line(root, x(hours), top, x(hours), bottom, stroke=_LINE)
            add_text(root, written(hours), x(hours), bottom + 16, fill=_MUTED, font_size=_SIZE, text_anchor="middle")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    name = "idle placeholder-hours a day"
    add_text(root, name, middle, bottom + 38, fill=_MUTED, font_size=_SIZE, text_anchor="middle")
    points = [(x(each.idle_hours_a_day), y(each.hit_rate)) for each in fixed]
    _curve(root, points)
    for each, (left, height) in zip(fixed, points, strict=True):
        add_text(root, each.name, left + 4, height + 14, fill=_MUTED, font_size=_SMALL)
    for each in policies:
        _policy(
            root, each, x(each.idle_hours_a_day), y(each.hit_rate), fixed, is_right=each.idle_hours_a_day > 0.6 * right
        )
    _curve(root, [(_WIDTH - 222, bottom - 16), (_WIDTH - 196, bottom - 16)])
    add_text(root, "fixed number of placeholders", _WIDTH - 188, bottom - 12, fill=_INK, font_size=_SIZE)
    return svg_text(root)


def _curve(root: Element, points: Sequence[tuple[float, float]]) -> None:
    if points:
        path = "M" + "L".join(f"{left:.1f},{height:.1f}" for left, height in points)
        SubElement(root, "path", {"d": path, "fill": "none", "stroke": _MUTED, "stroke-width": "1.4"})
    for left, height in points:
        SubElement(root, "circle", {"cx": f"{left:.1f}", "cy": f"{height:.1f}", "r": "2.2", "fill": _MUTED})


def _policy(
    root: Element, point: PolicyPoint, x: float, y: float, fixed: Sequence[PolicyPoint], *, is_right: bool
) -> None:
    SubElement(root, "path", {"d": f"M{x:.1f},{y - 5:.1f}l5,5l-5,5l-5,-5z", "fill": _TARGET})
    # The label must not cover the curve and its numbers.
    is_below = point.hit_rate > 0 and any(
        low.idle_hours_a_day <= point.idle_hours_a_day <= high.idle_hours_a_day and point.hit_rate < high.hit_rate
        for low, high in pairwise(fixed)
    )
    name = point.name if len(point.name) <= _LONGEST_NAME else f"{point.name[: _LONGEST_NAME - 1]}…"
    add_text(
        root,
        f"{printable(name)}  {point.hit_rate:.2%}",
        x - 8 if is_right else x + 8,
        y + 18 if is_below else y - 7,
        fill=_INK,
        font_size=_SIZE,
        text_anchor="end" if is_right else "start",
    )


def timeline_svg(found: Steps, zone: tzinfo, *, label: str = "Timeline", marks: Sequence[tuple[int, int]] = ()) -> str:
    """Launches over time, and placeholders and nodes if they are known.

    Parameters
    ----------
    zone
        Time zone of the axis.
    marks
        Ranges of minutes with a coloured background.
    """
    return _Timeline(found, zone, label, marks).drawn()


class _Timeline:
    def __init__(self, found: Steps, zone: tzinfo, label: str, marks: Sequence[tuple[int, int]]) -> None:
        self._found = found
        self._zone = zone
        self._marks = marks
        panels = 1 + bool(found.target) + bool(found.nodes)
        self._root = _picture(label, panels * (_TITLE + _PANEL + _GAP) - _GAP + _AXIS)
        self._top = 0.0

    def drawn(self) -> str:
        found = self._found
        launches = [("all", _DEMAND, found.launches)]
        if any(found.missed):
            launches.append(("had to wait", _MISSED, found.missed))
        self._panel("launches an hour", launches)
        if found.target:
            self._panel(
                "placeholders", [("warm (mean)", _WARM, found.warm)], ("target (highest)", _TARGET, found.target)
            )
        if found.nodes:
            self._panel("nodes", [("", _NODES, found.nodes)])
        bottom = self._top - _GAP
        for minute, text in self._ticks():
            add_line(self._root, self._x(minute), bottom, self._x(minute), bottom + 4, stroke=_LINE)
            add_text(self._root, text, self._x(minute), bottom + 17, fill=_MUTED, font_size=_SIZE, text_anchor="middle")
        return svg_text(self._root)

    def _x(self, minute: float) -> float:
        begin, end = self._found.edges[0], self._found.edges[-1]
        return _LEFT + (minute - begin) / max(end - begin, 1) * (_WIDTH - _LEFT - _RIGHT)

    def _panel(
        self,
        title: str,
        areas: Sequence[tuple[str, str, Sequence[float]]],
        line: tuple[str, str, Sequence[float]] | None = None,
    ) -> None:
        """Filled stairs of figures, and stairs of a line, with a legend if there are several."""
        root, top, bottom = self._root, self._top + _TITLE, self._top + _TITLE + _PANEL
        shown = (*areas, *([line] if line is not None else []))
        ticks = figure_ticks(max((figure for _, _, figures in shown for figure in figures), default=0))

        def y(figure: float) -> float:
            return bottom - (bottom - top) * figure / ticks[-1]

        add_text(root, title, 2, self._top + 14, fill=_INK, font_size=_SIZE)
        if len(shown) > 1:
            self._legend([(name, color) for name, color, _ in shown])
        for each in ticks:
            add_line(root, _LEFT, y(each), _WIDTH - _RIGHT, y(each), stroke=_LINE)
            _figure(root, written(each), _LEFT - 6, y(each) + 4)
        for begin, end in self._marks:
            left, right = self._x(begin), self._x(end)
            add_rect(root, left, top, right - left, bottom - top, fill=_MISSED, opacity="0.12")
        for number, (_, color, figures) in enumerate(areas):
            path = f"M{self._x(self._found.edges[0]):.1f},{bottom:.1f}{self._stairs(figures, y)}V{bottom:.1f}Z"
            SubElement(root, "path", {"d": path, "fill": color, "opacity": "1" if number else "0.55"})
        if line is not None:
            path = f"M{self._x(self._found.edges[0]):.1f},{y(line[2][0]):.1f}{self._stairs(line[2], y)}"
            SubElement(root, "path", {"d": path, "fill": "none", "stroke": line[1], "stroke-width": "1.4"})
        self._top = bottom + _GAP

    def _stairs(self, figures: Sequence[float], y: Callable[[float], float]) -> str:
        """Commands of a path: up or down to each figure, and to the end of its step."""
        edges = self._found.edges[1:]
        return "".join(f"V{y(figure):.1f}H{self._x(end):.1f}" for figure, end in zip(figures, edges, strict=True))

    def _legend(self, shown: Sequence[tuple[str, str]]) -> None:
        right = _WIDTH - _RIGHT
        for name, color in reversed(shown):
            right -= len(name) * _LETTER
            add_text(self._root, name, right, self._top + 14, fill=_INK, font_size=_SIZE)
            right -= 16
            add_rect(self._root, right, self._top + 5, 10, 10, fill=color)
            right -= 14

    def _ticks(self) -> Iterator[tuple[int, str]]:
        """Minutes of the time axis, in local time, and their labels."""
        begin, end = self._found.edges[0], self._found.edges[-1]
        pixels_an_hour = self._x(begin + 60) - self._x(begin)
        hours = next((each for each in _TICK_HOURS if each * pixels_an_hour >= _TICK_PIXELS), _TICK_HOURS[-1])
        first = datetime_of(begin).astimezone(self._zone).date()
        last = datetime_of(end).astimezone(self._zone).date()
        format_of_day = "%d %b" if (last - first).days < 300 else "%d %b %Y"
        day = first
        while day <= last:
            for hour in range(0, _DAY_HOURS, hours):
                minute = minute_of(datetime.combine(day, time(hour), self._zone))
                if begin <= minute <= end and self._x(minute) < _WIDTH - _RIGHT - 16:
                    yield minute, f"{day:{format_of_day}}" if hour == 0 else f"{hour:02}:00"
            day += timedelta(days=max(hours // _DAY_HOURS, 1))


def _picture(label: str, height: float) -> Element:
    box = f"0 0 {_WIDTH:g} {height:g}"
    return Element("svg", {"class": "plot", "role": "img", "aria-label": label, "viewBox": box})


def _figure(root: Element, text: str, x: float, y: float) -> None:
    add_text(root, text, x, y, fill=_MUTED, font_size=_SIZE, text_anchor="end")


def _nines(hit_rate: float) -> float:
    """Number of nines: 1 for 90 %, 2 for 99 %. Each further nine divides the misses by ten."""
    return -log10(1.0 - min(max(hit_rate, 0.0), _BEST))
