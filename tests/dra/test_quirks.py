"""One scenario for each peculiarity of kube-scheduler's allocator, in ``quirks/``, with the decisions of each release.

``expected`` is the decision of 1.36; ``expected_since`` has those of later releases and ``expected_before`` those of
earlier ones, each by the release at which it changed. ``quirk`` names the switch that is the cause of the change, and
``first`` the first release that the scenario is about, if it is not 1.36.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from dra_spawner.dra.features import Quirks
from dra_spawner.dra.scheduler_rules import RULES, Release, SchedulerRules
from tests.all_of_them import all_of_them
from tests.oracle.binary import Oracles, ask
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


def expected(case: dict[str, Any], release: Release) -> Any:
    """The decision of a release."""
    changes = {_release(text): value for text, value in case.get("expected_since", {}).items()}
    earlier = {_release(text): value for text, value in case.get("expected_before", {}).items()}
    since = max((change for change in changes if change <= release), default=None)
    before = min((change for change in earlier if release < change), default=None)
    return changes[since] if since is not None else earlier[before] if before is not None else case["expected"]


def _release(text: str) -> Release:
    major, minor = text.split(".")
    return int(major), int(minor)


def decided(case: dict[str, Any], rules: SchedulerRules) -> list[dict[str, Any]]:
    return [outcome(item) for item in verdicts(case["scenario"], rules)]


def releases(case: dict[str, Any]) -> list[Release]:
    """Releases that the case is about: before 1.36 many fields had no effect by default."""
    first = _release(case.get("first", "1.36"))
    return [release for release in sorted(RULES) if release >= first]


@all_of_them("case", CASES)
def test_quirk(case: dict[str, Any]) -> None:
    for release in releases(case):
        assert decided(case, RULES[release]) == expected(case, release), (release, case["what"])


@all_of_them("case", SWITCHED)
def test_quirk_alone(case: dict[str, Any]) -> None:
    """The one switch is the cause: it turns the decision of one release into that of the next, and back."""
    quirk = case["quirk"]
    older, newer = next(
        (RULES[one], RULES[other])
        for one, other in pairwise(releases(case))
        if getattr(RULES[one].quirks, quirk) and not getattr(RULES[other].quirks, quirk)
    )
    assert expected(case, older.release) != expected(case, newer.release)
    for rules, other in ((older, newer), (newer, older)):
        switched = replace(rules, quirks=replace(rules.quirks, **{quirk: getattr(other.quirks, quirk)}))
        assert decided(case, switched) == expected(case, other.release), (rules.release, case["what"])


def test_every_switch_has_a_scenario() -> None:
    # The last one is no matter of the allocator: tests/dra/model/test_taint_rules.py has its scenario.
    switched = {case["quirk"] for case in SWITCHED.values()} | {"rules_without_selector"}
    assert switched == {field.name for field in fields(Quirks)}


def test_kube_scheduler_decides_as_the_scenarios_expect(oracles: Oracles) -> None:
    cases = list(CASES.values())
    for release, binary in oracles.items():
        answers = ask(binary, [case["scenario"] for case in cases])
        for case, (_, answer) in zip(cases, answers, strict=True):
            if release not in releases(case):
                continue
            assert [outcome(item) for item in answer["verdicts"]] == expected(case, release), (release, case["what"])
