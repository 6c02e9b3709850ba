"""The timeline as SVG for a page with a strict content security policy: classes instead of styles, and no script.

The small plotting libraries for browsers, such as uPlot, are in no Python package, and files that were fetched are not
committed; matplotlib with what it needs is an optional dependency of 130 MB. Four panels need neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from dra_spawner.calendars.occurrences import Occurrence
from dra_spawner.placeholders.planner.demand.minutes import MINUTES_A_DAY, datetime_of, minute_of
from dra_spawner.service.http.page_words import span
from dra_spawner.service.http.timeline_figures import TimelineFigures, TimelineStep

__all__ = ["chart_svg"]

_TICK_HOURS: Final = (1, 2, 3, 6, 12, 24)
#: Least distance of labels of the time axis.
_TICK_PIXELS: Final = 62
#: Seconds between labels of durations.
_TIME_STEPS: Final = (5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200)
_LEFT: Final = 44
_RIGHT: Final = 10
_TITLE: Final = 22
_GAP: Final = 14
_AXIS: Final = 22
_LANE: Final = 22
_MAX_LANES: Final = 4
#: Width of a letter in the labels of entries, at most, and the space before the first.
_LETTER: Final = 6.5
_PADDING: Final = 5
#: Letters of a label; with fewer there is none.
_MAX_LETTERS: Final = 24
_FEWEST_LETTERS: Final = 4


@dataclass(frozen=True, slots=True)
class _EntryLabel:
    """The text of an entry, from `left` to about `right`."""

    text: str
    left: float
    right: float

    @classmethod
    def beside(cls, text: str, left: float, right: float, first: float, last: float) -> _EntryLabel:
        """A label within the box if it fits, else where more space is left: after the box or before it."""
        wanted = min(len(text), _MAX_LETTERS) * _LETTER
        is_after = last - right >= min(wanted + _PADDING, left - first)
        space = right - left if wanted + 2 * _PADDING <= right - left else max(last - right, left - first)
        letters = min(int((space - _PADDING) / _LETTER), _MAX_LETTERS)
        shown = text if len(text) <= letters else f"{text[: letters - 1]}…" if letters > _FEWEST_LETTERS else ""
        length = len(shown) * _LETTER
        begin = left + _PADDING if space == right - left else right + _PADDING if is_after else left - _PADDING - length
        return cls(shown, begin, begin + length)


def chart_svg(found: TimelineFigures, width: int) -> str:
    """The ``svg`` element.

    Parameters
    ----------
    width
        In pixels at full size.
    """
    return _Chart(found, width).drawn()


class _Chart:
    def __init__(self, found: TimelineFigures, width: int) -> None:
        self._found = found
        self._width = width
        self._root = Element("svg", {"class": "timeline", "role": "img"})
        self._top = 0.0
        self._panels = Element("g")

    def drawn(self) -> str:
        found, steps = self._found, self._found.steps
        self._calendar()
        launches = [max(each.launches or 0, each.usual or 0) for each in steps]
        self._panel("Launches", 104, _ticks(max(launches, default=0)), _number, self._launches)
        longest = max((each.high_seconds or 0 for each in steps), default=0)
        self._panel("Wait for a node", 84, _time_ticks(longest), span, self._waits)
        highest = [max(each.warm or 0, each.target or 0, each.forecast or 0) for each in steps]
        self._panel("Placeholders", 104, _ticks(max(highest, default=0)), _number, self._placeholders)
        height = self._top - _GAP + _AXIS
        self._root.set("viewBox", f"0 0 {self._width} {height:g}")
        label = f"Timeline from {_time(found.begin)} to {_time(found.end)} UTC. The table below has its figures."
        self._root.set("aria-label", label)
        self._grid(height - _AXIS)
        self._root.append(self._panels)
        self._hover(height - _AXIS)
        # Void elements do not exist in SVG within HTML.
        return tostring(self._root, encoding="unicode", short_empty_elements=False)

    # --- axes ---------------------------------------------------------------------------------------------------------

    def _x(self, minute: float) -> float:
        found = self._found
        part = (minute - found.begin) / max(found.end - found.begin, 1)
        return _LEFT + part * (self._width - _LEFT - _RIGHT)

    def _grid(self, bottom: float) -> None:
        found = self._found
        _rect(self._root, "coming", self._x(found.now), 0, self._width - _RIGHT - self._x(found.now), bottom)
        pixels_an_hour = self._x(found.begin + 60) - self._x(found.begin)
        hours = next((each for each in _TICK_HOURS if each * pixels_an_hour >= _TICK_PIXELS), _TICK_HOURS[-1])
        first = -(-found.begin // (hours * 60)) * hours * 60
        for minute in range(first, found.end + 1, hours * 60):
            _line(self._root, "grid", self._x(minute), 0, self._x(minute), bottom)
            if self._x(minute) < self._width - _RIGHT - 14:
                is_day = minute % MINUTES_A_DAY == 0
                _text(self._root, _day(minute) if is_day else _time(minute), self._x(minute), bottom + 15, "tick")
        now = self._x(found.now)
        _line(self._panels, "now", now, 0, now, bottom)

    def _panel(
        self,
        title: str,
        height: float,
        ticks: Sequence[float],
        label: Callable[[float], str],
        draw: Callable[[Callable[[float], float]], None],
    ) -> None:
        _text(self._panels, title, 2, self._top + 13, "title")
        top, bottom = self._top + _TITLE, self._top + _TITLE + height

        def y(figure: float) -> float:
            return bottom - (bottom - top) * figure / ticks[-1]

        for each in ticks:
            _line(self._panels, "grid", _LEFT, y(each), self._width - _RIGHT, y(each))
            _text(self._panels, label(each), _LEFT - 6, y(each) + 4, "figure")
        draw(y)
        self._top = bottom + _GAP

    # --- panels -------------------------------------------------------------------------------------------------------

    def _launches(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            left = self._x(step.begin)
            width = self._x(min(step.begin + self._found.minutes, self._found.end)) - left
            for name, figure in (("usual", step.usual), ("launches", step.launches), ("waited", step.waited)):
                if figure:
                    _rect(self._panels, name, left + 0.5, y(figure), max(width - 1, 1), y(0) - y(figure))

    def _waits(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            if step.median_seconds is not None and step.high_seconds is not None:
                middle = self._x(step.begin + self._found.minutes / 2)
                _line(self._panels, "wait", middle, y(step.median_seconds), middle, y(step.high_seconds))
                place = {"cx": f"{middle:.1f}", "cy": f"{y(step.median_seconds):.1f}", "r": "2.6"}
                SubElement(self._panels, "circle", {"class": "wait", **place})

    def _placeholders(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            if step.warm:
                left, right = self._x(step.begin), self._x(step.begin + self._found.minutes)
                _rect(self._panels, "warm", left, y(step.warm), right - left + 0.3, y(0) - y(step.warm))
        for step in self._found.steps:
            if step.begin > self._found.now and step.forecast:
                left, right = self._x(step.begin), self._x(min(step.begin + self._found.minutes, self._found.end))
                _rect(self._panels, "wanted", left, y(step.forecast), right - left, y(0) - y(step.forecast))
        self._stairs("forecast", y, lambda step: step.forecast)
        self._stairs("target", y, lambda step: step.target)

    def _stairs(self, name: str, y: Callable[[float], float], figure: Callable[[TimelineStep], float | None]) -> None:
        path, is_drawing = "", False
        for step in self._found.steps:
            known = figure(step)
            if known is None:
                is_drawing = False
                continue
            path += f"{'V' if is_drawing else f'M{self._x(step.begin):.1f},'}{y(known):.1f}"
            path += f"H{self._x(min(step.begin + self._found.minutes, self._found.end)):.1f}"
            is_drawing = True
        if path:
            SubElement(self._panels, "path", {"class": name, "d": path})

    def _calendar(self) -> None:
        _text(self._panels, "Calendar", 2, 13, "title")
        lanes: list[float] = []
        top = float(_TITLE)
        shown = [(each, self._place(each), possible) for each, possible in self._found.entries]
        for each, (left, right), possible in shown:
            label = _EntryLabel.beside(f"{each.name}: {each.users}", left, right, _LEFT, self._width - _RIGHT)
            lane = next((number for number, taken in enumerate(lanes) if taken <= min(left, label.left)), len(lanes))
            if lane == _MAX_LANES:
                continue  # the table has it
            lanes[lane : lane + 1] = [max(right, label.right) + 6]
            y = top + lane * _LANE
            name = "entry impossible" if possible is False else "entry"
            box = _rect(self._panels, name, left, y, max(right - left, 3), _LANE - 6)
            box.set("rx", "3")
            SubElement(box, "title").text = _entry_words(each, possible)
            if label.text:
                _text(self._panels, label.text, label.left, y + 12, "entry")
        if not shown:
            _text(self._panels, "no entries", _LEFT, top + 11, "none")
        self._top = top + max(len(lanes), 1) * _LANE + _GAP

    def _place(self, entry: Occurrence) -> tuple[float, float]:
        begin, end = self._found.begin, self._found.end
        left, right = (min(max(minute_of(each), begin), end) for each in (entry.begins, entry.ends))
        return self._x(left), self._x(right)

    def _hover(self, bottom: float) -> None:
        """What a mouse reads: the figures of each step."""
        for step in self._found.steps:
            left = self._x(step.begin)
            width = self._x(min(step.begin + self._found.minutes, self._found.end)) - left
            box = _rect(self._root, "step", left, _TITLE + _LANE, width, bottom - _TITLE - _LANE)
            SubElement(box, "title").text = "\n".join(_step_words(step, self._found.minutes))


# --- words and numbers ------------------------------------------------------------------------------------------------


def _step_words(step: TimelineStep, minutes: int) -> Iterable[str]:
    yield f"{_day(step.begin)}, {_time(step.begin)} to {_time(step.begin + minutes)} UTC"
    if step.usual is not None:
        yield f"{step.usual:.1f} launches are usual then"
    if step.launches is not None:
        yield f"{step.launches} launches, {step.waited} had to wait"
    if step.median_seconds is not None and step.high_seconds is not None:
        yield f"wait: median {span(step.median_seconds)}, 95 % within {span(step.high_seconds)}"
    if step.target is None and step.forecast is not None:
        yield f"placeholders: the forecast wants {step.forecast}"
    if step.target is not None:
        forecast = f", forecast {step.forecast}" if step.forecast is not None else ""
        yield f"placeholders: target {step.target}, warm {step.warm:.1f}{forecast}"


def _entry_words(entry: Occurrence, possible: bool | None) -> str:
    can = {True: "all can start", False: "not all can start", None: "not rehearsed"}[possible]
    begins, ends = entry.begins.strftime("%a %H:%M"), entry.ends.strftime("%H:%M %Z")
    return f"{entry.name}: {entry.users} of {entry.profile}, {begins} to {ends}, {can}"


def _ticks(highest: float) -> Sequence[float]:
    """Two or three round figures from 0 to at least the highest one."""
    step = 1.0
    while step * 2 < highest:
        step = next(step * factor / last for last, factor in ((1, 2), (2, 5), (5, 10)) if _leading(step) == last)
    return (0.0, step, 2 * step)


def _time_ticks(longest: float) -> Sequence[float]:
    """Three round durations in seconds."""
    step = next((each for each in _TIME_STEPS if 2 * each >= longest), longest / 2)
    return (0.0, step, 2 * step)


def _leading(step: float) -> int:
    return int(f"{step:e}"[0])


def _number(figure: float) -> str:
    return f"{figure:,.0f}"


def _time(minute: int) -> str:
    return f"{datetime_of(minute):%H:%M}"


def _day(minute: int) -> str:
    return f"{datetime_of(minute):%a %d}"


# --- elements ---------------------------------------------------------------------------------------------------------


def _rect(parent: Element, name: str, x: float, y: float, width: float, height: float) -> Element:
    numbers = {"x": x, "y": y, "width": max(width, 0), "height": max(height, 0)}
    return SubElement(parent, "rect", {"class": name, **{key: f"{each:.1f}" for key, each in numbers.items()}})


def _line(parent: Element, name: str, x1: float, y1: float, x2: float, y2: float) -> None:
    numbers = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    SubElement(parent, "line", {"class": name, **{key: f"{each:.1f}" for key, each in numbers.items()}})


def _text(parent: Element, text: str, x: float, y: float, name: str) -> None:
    SubElement(parent, "text", {"class": name, "x": f"{x:.1f}", "y": f"{y:.1f}"}).text = text
