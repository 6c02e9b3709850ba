"""Pictures: their contents, that they fit a page with a strict policy, and that names stay text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from dra_spawner.scale_ahead.demand.minutes import minute_of
from dra_spawner.scale_ahead.reports.plots import PolicyPoint, frontier_svg, timeline_svg
from dra_spawner.scale_ahead.reports.svg_parts import figure_ticks
from dra_spawner.scale_ahead.reports.timeline import Timeline, steps
from tests.all_of_them import all_of_them

FIXED = [PolicyPoint(str(number), 10.0 * number, 1 - 0.5**number) for number in range(8)]


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("text")]


def week() -> Timeline:
    figures = array("L", [minute % 97 for minute in range(7 * 1440)])
    return Timeline(29_000_000, figures, array("L", [each // 50 for each in figures]), figures, figures, figures)


def drawn() -> Iterator[str]:
    yield frontier_svg([PolicyPoint("forecast", 20.0, 0.99)], FIXED)
    yield frontier_svg([PolicyPoint("none", 0.0, 0.0)], [])
    yield timeline_svg(steps(week()), UTC, marks=[(29_000_010, 29_000_500)])
    only_launches = Timeline(29_000_000, array("L", [0] * 100), array("L", [0] * 100))
    yield timeline_svg(steps(only_launches), UTC)


@pytest.fixture(scope="module")
def pictures() -> list[str]:
    return list(drawn())


def test_a_picture_needs_no_style_no_script_and_no_other_file(pictures: list[str]) -> None:
    for svg in pictures:
        assert not re.search(r"style|<script|<!|<\?|xmlns|http|@|font-family", svg)
        found = ElementTree.fromstring(svg)
        assert (found.tag, found.get("role")) == ("svg", "img")
        assert not [each for each in found.iter() if each.tag not in ("svg", "path", "text", "rect", "line", "circle")]


def test_colours_are_the_pages(pictures: list[str]) -> None:
    for svg in pictures:
        found = ElementTree.fromstring(svg)
        colors = {each.get(name, "none") for each in found.iter() for name in ("fill", "stroke")}
        assert {each for each in colors if not each.startswith("var(--plot-")} <= {"none"}


def test_a_picture_is_the_same_again(pictures: list[str]) -> None:
    assert list(drawn()) == pictures


def test_policies_and_fixed_numbers_are_named() -> None:
    names = texts(frontier_svg([PolicyPoint("forecast", 20.0, 0.991)], FIXED))
    assert "forecast  99.10%" in names
    assert {each.name for each in FIXED} <= set(names)
    assert "99 %" in names


@all_of_them(
    "name, shown",
    {
        "html": ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        "mathematics": (r"$\frac{a}{$ & $x$", r"$\frac{a}{$ & $x$"),
        "not printable": ("a\x00b\nc\ud800", "a\ufffdb\ufffdc\ufffd"),
        "long": ("x" * 100, "x" * 39 + "…"),
        "other letters": ("Übung 日本", "Übung 日本"),
    },
)
def test_a_hostile_name_stays_text(name: str, shown: str) -> None:
    svg = frontier_svg([PolicyPoint(name, 20.0, 0.5)], FIXED)
    assert f"{shown}  50.00%" in texts(svg)
    assert "<script" not in svg


def test_a_timeline_shows_the_known_series() -> None:
    whole = texts(timeline_svg(steps(week()), UTC))
    assert {"launches an hour", "had to wait", "placeholders", "target (highest)", "nodes"} <= set(whole)
    launches = Timeline(29_000_000, array("L", [3] * 100), array("L", [0] * 100))
    few = texts(timeline_svg(steps(launches), UTC))
    assert "launches an hour" in few
    assert not {"had to wait", "placeholders", "nodes"} & set(few)


def test_the_axis_is_in_local_time_over_a_change_of_the_clock() -> None:
    """The night of 25 October 2026 has 25 hours in Berlin, and midnight stays midnight."""
    zone = ZoneInfo("Europe/Berlin")
    begin = minute_of(datetime(2026, 10, 24, tzinfo=zone))
    counts = array("L", [1] * (3 * 1440 + 60))
    shown = texts(timeline_svg(steps(Timeline(begin, counts, array("L", [0] * len(counts)))), zone))
    assert [each for each in shown if "Oct" in each] == ["24 Oct", "25 Oct", "26 Oct"]
    assert {each for each in shown if ":00" in each} == {"06:00", "12:00", "18:00"}


@all_of_them(
    "highest, ticks",
    {"nothing": (0, (0, 1, 2)), "few": (3, (0, 2, 4)), "seven": (7, (0, 5, 10)), "thousands": (4200, (0, 5000, 10000))},
)
def test_ticks_are_round_and_above_all_figures(highest: float, ticks: tuple[float, ...]) -> None:
    assert figure_ticks(highest) == ticks
