"""The allocator decides as kube-scheduler's own does, on random scenarios of every family."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.binary import ask
from tests.oracle.comparison import differences, verdicts
from tests.oracle.scenarios import FAMILIES, make_scenario, scenarios

PARTS = 4
SCENARIOS_PER_PART = 500


@pytest.mark.parametrize("part", range(PARTS))
def test_random_scenarios_have_the_reference_verdicts(oracle: Path, part: int) -> None:
    different = []
    outcomes: Counter[str] = Counter()
    for scenario, answer in ask(oracle, scenarios(SCENARIOS_PER_PART, seed=100 + part)):
        assert "error" not in answer, answer
        outcomes.update(verdict["outcome"] for verdict in answer["verdicts"])
        lines = differences(verdicts(scenario), answer["verdicts"])
        if lines:
            different.append((scenario["name"], lines))
    assert not different, f"look at one with: python -m tests.oracle --seed {100 + part}; {different[:3]}"
    # Scenarios that all end the same way would prove nothing.
    assert outcomes["fits"] > 150
    assert outcomes["none"] > 150
    assert outcomes["fatal"] > 50
    assert outcomes["on-node"] >= 1


def test_a_wrong_verdict_is_noticed(oracle: Path) -> None:
    for family in FAMILIES:
        scenario = make_scenario(family, 7)
        [(_, answer)] = ask(oracle, [scenario])
        mine = verdicts(scenario)
        assert not differences(mine, answer["verdicts"])
        wrong: list[dict[str, Any]] = [
            {"outcome": "none" if item["outcome"] == "fits" else "fits", "results": []} for item in mine
        ]
        assert len(differences(wrong, answer["verdicts"])) == len(mine)


def test_scenarios_are_reproducible() -> None:
    assert make_scenario("mix", 5) == make_scenario("mix", 5)
    assert make_scenario("mix", 5) != make_scenario("mix", 6)
