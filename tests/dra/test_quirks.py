"""One scenario for each peculiarity of kube-scheduler's allocator, in ``quirks/``, with the decision of 1.36.3.

Where a switch of :class:`Quirks` turns it off, the file also has the decision without it.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from dra_spawner.dra.features import QUIRKS_1_36, QUIRKS_OFF, Quirks
from tests.all_of_them import all_of_them
from tests.oracle.binary import ask
from tests.oracle.comparison import verdicts

FILES = sorted((Path(__file__).parent / "quirks").glob("*.json"))
CASES: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in FILES}
SWITCHED = {name: case for name, case in CASES.items() if "quirk" in case}


def outcome(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict without its explanation; a crash of the reference counts as fatal."""
    stripped: dict[str, Any] = {"outcome": "fatal" if verdict["outcome"] == "panic" else verdict["outcome"]}
    if verdict.get("results"):
        stripped["results"] = verdict["results"]
        for allocation in stripped["results"]:
            for result in allocation["devices"].get("results", ()):
                if "shareID" in result:
                    result["shareID"] = "share"
    return stripped


@all_of_them("case", CASES)
def test_quirk(case: dict[str, Any]) -> None:
    assert [outcome(item) for item in verdicts(case["scenario"])] == case["expected"], case["what"]


@all_of_them("case", SWITCHED)
def test_quirk_switched_off(case: dict[str, Any]) -> None:
    quirks = dataclasses.replace(QUIRKS_1_36, **{case["quirk"]: False})
    decided = [outcome(item) for item in verdicts(case["scenario"], quirks)]
    assert decided == case["expected_without_quirk"], case["what"]
    assert decided != case["expected"]
    assert [outcome(item) for item in verdicts(case["scenario"], QUIRKS_OFF)] == decided


def test_every_switch_has_a_scenario() -> None:
    assert {case["quirk"] for case in SWITCHED.values()} == {field.name for field in dataclasses.fields(Quirks)}


def test_kube_scheduler_decides_as_the_scenarios_expect(oracle: Path) -> None:
    cases = list(CASES.values())
    for case, (_, answer) in zip(cases, ask(oracle, [case["scenario"] for case in cases]), strict=True):
        assert [outcome(item) for item in answer["verdicts"]] == case["expected"], case["what"]
