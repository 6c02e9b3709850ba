"""Lines such as ``350 of gpu-slice``."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dra_spawner.scale_ahead.calendars.demand_lines import DemandLine, looks_like_demand, read_demand_line
from dra_spawner.scale_ahead.calendars.occurrences import ADDITIONAL, IN_TOTAL
from tests.all_of_them import all_of_them


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("350 of gpu-slice", DemandLine(350, "gpu-slice")),
        ("  350  of gpu-slice/memory=large ", DemandLine(350, "gpu-slice/memory=large")),
        ("350 of gpu-slice in total", DemandLine(350, "gpu-slice", IN_TOTAL)),
        ("350 OF gpu-slice In  Total", DemandLine(350, "gpu-slice", IN_TOTAL)),
        ("1 of gpu additional within 20 min", DemandLine(1, "gpu", ADDITIONAL, timedelta(minutes=20))),
        ("1 of gpu within 20 minutes", DemandLine(1, "gpu", ADDITIONAL, timedelta(minutes=20))),
        ('12 of "Large GPU" in total', DemandLine(12, "Large GPU", IN_TOTAL)),
        ("0 of gpu", DemandLine(0, "gpu")),
    ],
)
def test_lines(line: str, expected: DemandLine) -> None:
    assert read_demand_line(line) == expected
    assert looks_like_demand(line)


@all_of_them(
    "line",
    [
        "",
        "of gpu",
        "350 gpu",
        "-1 of gpu",
        "1.5 of gpu",
        "3 of",
        "3 of a b",
        "3 of gpu total",
        "3 of gpu within",
        "x" * 9_999,
    ],
)
def test_other_lines_are_refused_with_the_allowed_form(line: str) -> None:
    with pytest.raises(ValueError, match="350 of gpu-slice"):
        read_demand_line(line)


def test_too_many_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 100000"):
        read_demand_line("100001 of gpu")
    with pytest.raises(ValueError, match="at most 1440 min"):
        read_demand_line("3 of gpu within 1441 min")


def test_a_sentence_about_people_is_not_demand() -> None:
    assert not looks_like_demand("Lunch with 3 of us")
    assert looks_like_demand("3 of us go for lunch"), "which is then refused by name"
