"""The allocator decides as the kube-scheduler of each release does, on random scenarios of every family."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from dra_spawner.dra.scheduler_rules import RULES
from tests.examples import example_count
from tests.oracle.binary import RELEASES, Oracles, ask
from tests.oracle.comparison import differences, verdicts
from tests.oracle.release_scenarios import as_of
from tests.oracle.scenarios import FAMILIES, make_scenario, scenarios

SCENARIOS = 20_000


def test_random_scenarios_have_the_reference_verdicts(oracles: Oracles) -> None:
    for release, binary in oracles.items():
        different = []
        outcomes: Counter[str] = Counter()
        asked = (as_of(each, release) for each in scenarios(example_count(SCENARIOS), seed=100))
        for scenario, answer in ask(binary, asked):
            assert "error" not in answer, answer
            outcomes.update(verdict["outcome"] for verdict in answer["verdicts"])
            lines = differences(verdicts(scenario, RULES[release]), answer["verdicts"])
            if lines:
                different.append((scenario["name"], lines))
        assert not different, f"{release}: look at one with: python -m tests.oracle --seed 100; {different[:3]}"
        # Scenarios that all end the same way would prove nothing.
        assert outcomes["fits"] > 150
        assert outcomes["none"] > 150
        assert outcomes["fatal"] > 50
        assert outcomes["on-node"] >= 1 or release == (1, 34)


def test_each_release_has_rules_and_an_oracle() -> None:
    assert set(RELEASES) == set(RULES)


def test_a_wrong_verdict_is_noticed(oracle: Path) -> None:
    for family in FAMILIES:
        scenario = make_scenario(family, 7)
        [(_, answer)] = ask(oracle, [scenario])
        mine = verdicts(scenario, RULES[1, 36])
        assert not differences(mine, answer["verdicts"])
        wrong: list[dict[str, Any]] = [
            {"outcome": "none" if item["outcome"] == "fits" else "fits", "results": []} for item in mine
        ]
        assert len(differences(wrong, answer["verdicts"])) == len(mine)


def test_scenarios_are_reproducible() -> None:
    assert make_scenario("mix", 5) == make_scenario("mix", 5)
    assert make_scenario("mix", 5) != make_scenario("mix", 6)
