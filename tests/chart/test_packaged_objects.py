"""The packaged objects are those that the chart installs."""

from tests.chart.packaged_objects import OBJECTS, packaged


def test_the_package_has_what_the_chart_renders() -> None:
    assert OBJECTS.read_text() == packaged(), "run python -m tests.chart.packaged_objects"
