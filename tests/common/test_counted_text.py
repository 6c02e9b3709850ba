"""Numbers and lists in sentences."""

from __future__ import annotations

from dra_spawner.common.counted_text import counted, listed


def test_numbers_and_lists() -> None:
    assert [counted(number, "node") for number in (0, 1, 2, 1_500)] == ["0 nodes", "1 node", "2 nodes", "1,500 nodes"]
    assert listed([], 2) == ""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(range(1_005), 2, separator="; ", noun="nodes") == "0; 1 and 1,003 more nodes"
