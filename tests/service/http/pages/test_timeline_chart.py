"""The picture of the timeline: valid, without scripts and styles, with names as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from dra_spawner.scale_ahead.calendars.occurrences import Occurrence
from dra_spawner.scale_ahead.demand.minutes import datetime_of, minute_of
from dra_spawner.service.http.pages.timeline_chart import chart_svg
from dra_spawner.service.http.pages.timeline_figures import TimelineFigures, TimelineStep

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
BEGIN = minute_of(NOW) - 60
EVIL = "<script>alert(1)</script>"


def timeline(*steps: TimelineStep, entries: int = 0) -> TimelineFigures:
    occurrences = [
        (Occurrence(f"{EVIL} {number}", EVIL, NOW, NOW + timedelta(hours=1), 8), False) for number in range(entries)
    ]
    return TimelineFigures(BEGIN, BEGIN + 60, BEGIN + 90, 15, steps=steps, entries=occurrences)


def classes(svg: str) -> list[str]:
    return [each.get("class", "") for each in ElementTree.fromstring(svg).iter()]


@pytest.mark.parametrize("width", [1040, 380])
def test_all_figures_are_drawn(width: int) -> None:
    known = TimelineStep(BEGIN, 12, 3, 2.0, 240.0, warm=3.5, servers=9, target=4, forecast=5)
    svg = chart_svg(
        timeline(known, TimelineStep(BEGIN + 15), TimelineStep(BEGIN + 75, usual=2.5, forecast=6), entries=1), width
    )
    found = classes(svg)
    for name in (
        "launches",
        "waited",
        "usual",
        "wait",
        "warm",
        "target",
        "forecast",
        "wanted",
        "entry impossible",
        "now",
    ):
        assert name in found, name
    assert found.count("step") == 3
    assert "12 launches, 3 had to wait" in svg
    assert "wait: median 2 s, 95 % within 4 min" in svg
    assert "2.5 launches are usual then" in svg
    assert "the forecast wants 6" in svg
    assert "not all can start" in svg


def test_names_stay_text() -> None:
    svg = chart_svg(timeline(entries=9), 1040)
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert "style=" not in svg
    assert classes(svg).count("entry impossible") == 4, "the table has the others"


def test_labels_of_entries_are_beside_short_boxes() -> None:
    """The label of the first entry fits after its box, that of the last before it."""
    begins = [datetime_of(BEGIN + minute) for minute in (5, 85)]
    entries = [(Occurrence("Physics lab", "gpu", each, each + timedelta(minutes=2), 8), None) for each in begins]
    root = ElementTree.fromstring(chart_svg(TimelineFigures(BEGIN, BEGIN + 60, BEGIN + 90, 15, entries=entries), 1040))
    boxes = [each for each in root.iter("rect") if each.get("class") == "entry"]
    labels = [each for each in root.iter("text") if each.get("class") == "entry"]
    assert [each.text for each in labels] == ["Physics lab: 8"] * 2
    (first, last), (after, before) = ([float(each.get("x", "")) for each in found] for found in (boxes, labels))
    assert after > first + float(boxes[0].get("width", ""))
    assert 800 < before < last - 80


def test_nothing_is_known() -> None:
    svg = chart_svg(timeline(), 1040)
    assert "no entries" in svg
    assert "launches" not in classes(svg)
