"""The timeline as SVG; the page's style sheet has the colours of its classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from dra_spawner.common.counted_text import span
from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import MINUTES_A_DAY, datetime_of, minute_of
from dra_spawner.scale_ahead.reports.svg_parts import add_line, add_rect, add_text, figure_ticks, svg_text, written
from dra_spawner.service.http.pages.timeline_figures import TimelineFigures, TimelineStep

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
        self._panel("Launches", 104, figure_ticks(max(launches, default=0)), written, self._launches)
        longest = max((each.high_seconds or 0 for each in steps), default=0)
        self._panel("Wait for a node", 84, _time_ticks(longest), span, self._waits)
        highest = [max(each.warm or 0, each.target or 0, each.forecast or 0) for each in steps]
        self._panel("Placeholders", 104, figure_ticks(max(highest, default=0)), written, self._placeholders)
        height = self._top - _GAP + _AXIS
        self._root.set("viewBox", f"0 0 {self._width} {height:g}")
        label = f"Timeline from {_time(found.begin)} to {_time(found.end)} UTC. The table below has its figures."
        self._root.set("aria-label", label)
        self._grid(height - _AXIS)
        self._root.append(self._panels)
        self._hover(height - _AXIS)
        return svg_text(self._root)

    # --- axes ---------------------------------------------------------------------------------------------------------

    def _x(self, minute: float) -> float:
        found = self._found
        part = (minute - found.begin) / max(found.end - found.begin, 1)
        return _LEFT + part * (self._width - _LEFT - _RIGHT)

    def _grid(self, bottom: float) -> None:
        found = self._found
        add_rect(self._root, self._x(found.now), 0, self._width - _RIGHT - self._x(found.now), bottom, class_="coming")
        pixels_an_hour = self._x(found.begin + 60) - self._x(found.begin)
        hours = next((each for each in _TICK_HOURS if each * pixels_an_hour >= _TICK_PIXELS), _TICK_HOURS[-1])
        first = -(-found.begin // (hours * 60)) * hours * 60
        for minute in range(first, found.end + 1, hours * 60):
            add_line(self._root, self._x(minute), 0, self._x(minute), bottom, class_="grid")
            if self._x(minute) < self._width - _RIGHT - 14:
                is_day = minute % MINUTES_A_DAY == 0
                add_text(
                    self._root, _day(minute) if is_day else _time(minute), self._x(minute), bottom + 15, class_="tick"
                )
        now = self._x(found.now)
        add_line(self._panels, now, 0, now, bottom, class_="now")

    def _panel(
        self,
        title: str,
        height: float,
        ticks: Sequence[float],
        label: Callable[[float], str],
        draw: Callable[[Callable[[float], float]], None],
    ) -> None:
        add_text(self._panels, title, 2, self._top + 13, class_="title")
        top, bottom = self._top + _TITLE, self._top + _TITLE + height

        def y(figure: float) -> float:
            return bottom - (bottom - top) * figure / ticks[-1]

        for each in ticks:
            add_line(self._panels, _LEFT, y(each), self._width - _RIGHT, y(each), class_="grid")
            add_text(self._panels, label(each), _LEFT - 6, y(each) + 4, class_="figure")
        draw(y)
        self._top = bottom + _GAP

    # --- panels -------------------------------------------------------------------------------------------------------

    def _launches(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            left = self._x(step.begin)
            width = self._x(min(step.begin + self._found.minutes, self._found.end)) - left
            for name, figure in (("usual", step.usual), ("launches", step.launches), ("waited", step.waited)):
                if figure:
                    add_rect(self._panels, left + 0.5, y(figure), max(width - 1, 1), y(0) - y(figure), class_=name)

    def _waits(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            if step.median_seconds is not None and step.high_seconds is not None:
                middle = self._x(step.begin + self._found.minutes / 2)
                add_line(self._panels, middle, y(step.median_seconds), middle, y(step.high_seconds), class_="wait")
                place = {"cx": f"{middle:.1f}", "cy": f"{y(step.median_seconds):.1f}", "r": "2.6"}
                SubElement(self._panels, "circle", {"class": "wait", **place})

    def _placeholders(self, y: Callable[[float], float]) -> None:
        for step in self._found.steps:
            if step.warm:
                left, right = self._x(step.begin), self._x(step.begin + self._found.minutes)
                add_rect(self._panels, left, y(step.warm), right - left + 0.3, y(0) - y(step.warm), class_="warm")
        for step in self._found.steps:
            if step.begin > self._found.now and step.forecast:
                left, right = self._x(step.begin), self._x(min(step.begin + self._found.minutes, self._found.end))
                add_rect(self._panels, left, y(step.forecast), right - left, y(0) - y(step.forecast), class_="wanted")
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
        add_text(self._panels, "Calendar", 2, 13, class_="title")
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
            box = add_rect(self._panels, left, y, max(right - left, 3), _LANE - 6, class_=name)
            box.set("rx", "3")
            SubElement(box, "title").text = _entry_text(each, possible)
            if label.text:
                add_text(self._panels, label.text, label.left, y + 12, class_="entry")
        if not shown:
            add_text(self._panels, "no entries", _LEFT, top + 11, class_="none")
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
            box = add_rect(self._root, left, _TITLE + _LANE, width, bottom - _TITLE - _LANE, class_="step")
            SubElement(box, "title").text = "\n".join(_step_text(step, self._found.minutes))


# --- words and numbers ------------------------------------------------------------------------------------------------


def _step_text(step: TimelineStep, minutes: int) -> Iterable[str]:
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


def _entry_text(entry: Occurrence, possible: bool | None) -> str:
    can = {True: "all can start", False: "not all can start", None: "not rehearsed"}[possible]
    begins, ends = entry.begins.strftime("%a %H:%M"), entry.ends.strftime("%H:%M %Z")
    return f"{entry.name}: {entry.users} of {entry.profile}, {begins} to {ends}, {can}"


def _time_ticks(longest: float) -> Sequence[float]:
    """Three round durations in seconds."""
    step = next((each for each in _TIME_STEPS if 2 * each >= longest), longest / 2)
    return (0.0, step, 2 * step)


def _time(minute: int) -> str:
    return f"{datetime_of(minute):%H:%M}"


def _day(minute: int) -> str:
    return f"{datetime_of(minute):%a %d}"
