"""Each rule: choices that it speaks about, and the like about which it is silent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from dra_spawner.profiles.choices import list_choices
from dra_spawner.profiles.drivers import DRIVER_RULES, driver_findings, known_drivers
from dra_spawner.profiles.facts import ClusterFacts
from tests.all_of_them import all_of_them
from tests.examples import example_count
from tests.profiles import strategies
from tests.profiles.drivers.beds import BEDS, FACTS
from tests.profiles.drivers.choices import TOLERATIONS, choice_of, found
from tests.profiles.drivers.firing_rules import FIRES
from tests.profiles.drivers.parameter_cases import nvidia
from tests.profiles.drivers.rule_cases import GPU, MIG, NV, Case, Json, claim
from tests.profiles.drivers.silent_rules import SILENT


def facts_of(case: Case) -> ClusterFacts | None:
    if case.bed:
        return BEDS[case.bed].facts(**case.facts)
    return ClusterFacts(**case.facts) if case.facts else None


def cases(table: dict[str, dict[str, Case]]) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{rule}: {name}") for rule, each in table.items() for name, case in each.items()
    ]


@all_of_them("rule, case", cases(FIRES))
def test_fires(rule: str, case: Case):
    findings = [each for each in found(case.claims, facts_of(case), **case.settings) if each.rule == rule]
    assert [each.path for each in findings][:1] == [case.path]
    assert case.words in findings[0].message
    assert findings[0].level is case.level


@all_of_them("rule, case", cases(SILENT))
def test_silent(rule: str, case: Case):
    findings = found(case.claims, facts_of(case), **case.settings)
    assert [each for each in findings if each.rule == rule] == []


def test_every_rule_is_tested_both_ways():
    assert set(FIRES) == set(SILENT) == {rule.name for rule in DRIVER_RULES}


def test_levels_are_those_that_the_rules_name():
    levels = {rule.name: set(rule.levels) for rule in DRIVER_RULES}
    for rule, each in FIRES.items():
        assert {case.level for case in each.values()} == levels[rule]


def test_rules_that_need_a_cluster_are_silent_without_one():
    for rule in DRIVER_RULES:
        if rule.needs_cluster:
            for case in FIRES[rule.name].values():
                assert rule.name not in [each.rule for each in found(case.claims, None, **case.settings)]


def test_a_setting_of_the_spawner_itself_has_its_path():
    profile = {"display_name": "Test", "kubespawner_override": {"device_claims": claim(MIG)}}
    (listed,) = list_choices([profile], {"privileged": True}, settings_path="c.KubeSpawner")
    assert listed.choice is not None
    paths = [each.path for each in driver_findings(listed.choice, None) if each.rule == "bypassed-share"]
    assert paths == ["c.KubeSpawner.privileged"]


def test_a_finding_has_the_path_of_its_choice():
    option = {
        "display_name": "Mode",
        "choices": {
            "plain": {"display_name": "Plain", "kubespawner_override": {}},
            "odd": {
                "display_name": "Odd",
                "kubespawner_override": {
                    "device_claims": {"a": {"config": [{"driver": NV, "parameters": nvidia(a=1)}]}}
                },
            },
        },
    }
    profile = {
        "display_name": "Test",
        "kubespawner_override": {"device_claims": claim(GPU), "tolerations": TOLERATIONS},
        "profile_options": {"mode": option},
    }
    listed = [each.choice for each in list_choices([profile], {}) if each.choice is not None]
    paths = [each.path for choice in listed for each in driver_findings(choice, None)]
    base = "profile_list[0].profile_options.mode.choices.odd.kubespawner_override.device_claims"
    assert paths == [f"{base}.a.config[0].parameters.a"]


def test_each_drivers_own_findings_are_all_findings_together():
    for each in FIRES.values():
        for case in each.values():
            choice = choice_of(case.claims, **{"tolerations": TOLERATIONS, **case.settings})
            alone = [finding for driver in known_drivers() for finding in driver.findings(choice, facts_of(case))]
            assert set(driver_findings(choice, facts_of(case))) == set(alone)


@settings(max_examples=example_count(60), suppress_health_check=list(HealthCheck))
@given(strategies.device_claims)
def test_any_claims_can_be_checked(value: Json):
    (listed,) = list_choices([], {"device_claims": value})
    assert listed.choice is not None, listed.problems
    for facts in (None, FACTS["broken"], FACTS["a100-efa"]):
        for finding in driver_findings(listed.choice, facts):
            assert finding.path.startswith(("device_claims", "tolerations"))
            assert finding.message.endswith(".")
