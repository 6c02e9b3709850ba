"""The allocator decides as the kube-scheduler of each release does, on random scenarios of every family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path
from random import SystemRandom
from typing import Any

from dra_spawner.dra.errors import FatalReason
from dra_spawner.dra.scheduler_rules import RULES
from tests.examples import example_count
from tests.oracle.binary import REFERENCE, RELEASES, Oracles, ask
from tests.oracle.comparison import compared, differences, verdicts
from tests.oracle.recorded import fingerprint, read_record, recorded_scenarios
from tests.oracle.release_scenarios import as_of
from tests.oracle.scenarios import FAMILIES, make_scenario, scenarios

SCENARIOS = 20_000
#: In the gate, each third recorded scenario is decided.
EACH = 1 if example_count(100) == 100 else 3


def test_recorded_answers() -> None:
    """Of a thousand scenarios of each release, without Go."""
    for release, rules in RULES.items():
        version, known = read_record(release)
        assert version == RELEASES[release], "record anew: python -m tests.oracle --record"
        different = []
        both = zip(recorded_scenarios(release), known, strict=True)
        for scenario, recorded in islice(both, 0, None, EACH):
            mine = verdicts(scenario, rules)
            is_known = all(each.get("reason") is not FatalReason.SELECTOR_UNSUPPORTED for each in mine)
            if is_known and fingerprint(mine) != recorded:
                different.append(scenario["name"])
        assert not different, (release, different)


def test_releases_differ_in_recorded_answers() -> None:
    """Scenarios in which all releases decide alike would prove nothing."""
    records = {release: read_record(release)[1] for release in RULES}
    for one, other in pairwise(records):
        differing = sum(map(str.__ne__, records[one], records[other]))
        assert differing >= 20, (one, other, differing)


def test_random_scenarios_have_the_reference_verdicts(oracles: Oracles) -> None:
    seed = SystemRandom().randrange(10**6)
    for release, binary in oracles.items():
        different = []
        random = []
        outcomes: Counter[str] = Counter()
        asked = (as_of(each, release) for each in scenarios(SCENARIOS, seed))
        for scenario, answer in ask(binary, asked):
            assert "error" not in answer, answer
            outcomes.update(verdict["outcome"] for verdict in answer["verdicts"])
            found = compared(scenario, answer, RULES[release], partial(ask, binary))
            if found.is_random:
                random.append(scenario["name"])
            elif found.differences:
                different.append((scenario["name"], found.differences))
        assert not different, f"{release}: look at one with: python -m tests.oracle --seed {seed}; {different[:3]}"
        # Scenarios that all end the same way, or by chance, would prove nothing.
        assert min(outcomes[each] for each in ("fits", "none", "fatal")) > SCENARIOS // 100
        assert len(random) < SCENARIOS // 1_000, (release, seed, random)


def test_an_answer_of_chance_is_called_so() -> None:
    """Where the reference contradicts itself, each of its answers may be ours; where it does not, none is excused."""
    scenario = make_scenario("plain", 7)
    mine = verdicts(scenario, RULES[1, 37])
    right = [{"steps": 0, **verdict} for verdict in mine]
    wrong = [{"outcome": "on-node", "steps": 0}] * len(mine)
    for answers, lines, is_random in (((wrong, right), 0, True), ((wrong,), len(mine), False)):
        turns = cycle(answers)

        def asked(several: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
            for each in several:
                times = len(each["nodes"]) // len(mine)
                yield each, {"verdicts": [verdict for verdict in next(turns) for _ in range(times)]}  # noqa: B023 (asked at once)

        found = compared(scenario, {"verdicts": wrong}, RULES[1, 37], asked)
        assert (len(found.differences), found.is_random) == (lines, is_random)


def test_each_release_has_rules_and_an_oracle() -> None:
    assert set(RELEASES) == set(RULES)


def test_a_wrong_verdict_is_noticed(oracle: Path) -> None:
    for family in FAMILIES:
        scenario = make_scenario(family, 7)
        [(_, answer)] = ask(oracle, [scenario])
        mine = verdicts(scenario, RULES[REFERENCE])
        assert not differences(mine, answer["verdicts"])
        wrong: list[dict[str, Any]] = [
            {"outcome": "none" if item["outcome"] == "fits" else "fits", "results": []} for item in mine
        ]
        assert len(differences(wrong, answer["verdicts"])) == len(mine)


def test_scenarios_are_reproducible() -> None:
    assert make_scenario("mix", 5) == make_scenario("mix", 5)
    assert make_scenario("mix", 5) != make_scenario("mix", 6)
