"""Numbers, shares, lists and durations in sentences."""

from __future__ import annotations

from dra_spawner.common.counted_text import counted, listed, percent, span


def test_numbers_and_lists() -> None:
    assert [counted(number, "node") for number in (0, 1, 2, 1_500)] == ["0 nodes", "1 node", "2 nodes", "1,500 nodes"]
    assert listed([], 2) == ""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(range(1_005), 2, separator="; ", noun="nodes") == "0; 1 and 1,003 more nodes"


def test_shares_and_durations() -> None:
    assert [percent(each) for each in (0, 0.256, 1)] == ["0 %", "26 %", "100 %"]
    assert percent(0.256, 1) == "25.6 %"
    assert [span(each) for each in (-3, 119, 120, 7199, 7200, 172_800)] == [
        "0 s",
        "119 s",
        "2 min",
        "119 min",
        "2 h",
        "2 d",
    ]
