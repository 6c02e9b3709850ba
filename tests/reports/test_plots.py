"""Pictures: their contents, that they fit a page with a strict policy, and that names stay text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from datetime import UTC
from xml.etree import ElementTree

import pytest

from dra_spawner.reports.inline_svg import inline_svg
from dra_spawner.reports.plots import PolicyPoint, frontier_svg, timeline_svg
from dra_spawner.reports.timeline import Timeline, steps
from tests.all_of_them import all_of_them

FIXED = [PolicyPoint(str(number), 10.0 * number, 1 - 0.5**number) for number in range(8)]


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("text")]


def week() -> Timeline:
    figures = array("L", [minute % 97 for minute in range(7 * 1440)])
    return Timeline(29_000_000, figures, array("L", [each // 50 for each in figures]), figures, figures, figures)


def drawn() -> Iterator[str]:
    yield frontier_svg([PolicyPoint("forecast", 20.0, 0.99)], FIXED, prefix="a-")
    yield frontier_svg([PolicyPoint("none", 0.0, 0.0)], [], prefix="b-")
    yield timeline_svg(steps(week()), UTC, prefix="c-", marks=[(29_000_010, 29_000_500)])
    only_launches = Timeline(29_000_000, array("L", [0] * 100), array("L", [0] * 100))
    yield timeline_svg(steps(only_launches), UTC, prefix="d-")


@pytest.fixture(scope="module")
def pictures() -> list[str]:
    return list(drawn())


def test_a_picture_needs_no_style_no_script_and_no_other_file(pictures: list[str]) -> None:
    for svg in pictures:
        assert not re.search(r"style|<script|<!|<\?|xmlns|http|@|font-family", svg)
        found = ElementTree.fromstring(svg)
        assert (found.tag, found.get("role")) == ("svg", "img")
        assert not [
            each
            for each in found.iter()
            if each.tag not in ("svg", "g", "path", "text", "use", "defs", "clipPath", "rect", "tspan")
        ]


def test_colours_are_the_pages(pictures: list[str]) -> None:
    for svg in pictures:
        found = ElementTree.fromstring(svg)
        colors = {each.get(name, "none") for each in found.iter() for name in ("fill", "stroke")}
        assert {each for each in colors if not each.startswith("var(--plot-")} <= {"none"}


def test_references_are_unique_and_complete(pictures: list[str]) -> None:
    known: set[str] = set()
    for svg in pictures:
        found = ElementTree.fromstring(svg)
        own = [each.get("id", "") for each in found.iter() if each.get("id")]
        assert len(own) == len(set(own))
        assert not known & set(own)
        known |= set(own)
        assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", svg)) == set(own)


def test_a_picture_is_the_same_again(pictures: list[str]) -> None:
    assert list(drawn()) == pictures


def test_policies_and_fixed_numbers_are_named() -> None:
    names = texts(frontier_svg([PolicyPoint("forecast", 20.0, 0.991)], FIXED, prefix=""))
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
@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_hostile_name_stays_text(name: str, shown: str) -> None:
    svg = frontier_svg([PolicyPoint(name, 20.0, 0.5)], FIXED, prefix="")
    assert f"{shown}  50.00%" in texts(svg)
    assert "<script" not in svg


def test_a_timeline_shows_the_known_series() -> None:
    whole = texts(timeline_svg(steps(week()), UTC, prefix=""))
    assert {"launches an hour", "had to wait", "placeholders", "target (highest)", "nodes"} <= set(whole)
    launches = Timeline(29_000_000, array("L", [3] * 100), array("L", [0] * 100))
    few = texts(timeline_svg(steps(launches), UTC, prefix=""))
    assert "launches an hour" in few
    assert not {"had to wait", "placeholders", "nodes"} & set(few)


def test_styles_become_attributes() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1 1">'
        '<metadata/><style>*{}</style><defs><path id="m" style="fill: #ABCDEF; stroke-width: 2"/><path id="n"/></defs>'
        '<use xlink:href="#m" clip-path="url(#c)"/><clipPath id="c"/>'
        "<text style=\"font: 10px 'DejaVu Sans', sans-serif; text-anchor: middle\">a</text></svg>"
    )
    assert inline_svg(svg, {"#abcdef": "var(--x)"}, label="<A>", prefix="p-") == (
        '<svg class="plot" role="img" aria-label="&lt;A&gt;" viewBox="0 0 1 1" stroke-linejoin="round">'
        '<defs><path id="p-m" fill="var(--x)" stroke-width="2"></path><path></path></defs>'
        '<use href="#p-m" clip-path="url(#p-c)"></use><clipPath id="p-c"></clipPath>'
        '<text font-size="10" text-anchor="middle">a</text></svg>'
    )
