"""Choices of a list that have claims in common."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.profiles.choices import ListedChoice, list_choices
from dra_spawner.profiles.compiler.extended_resources import of_settings

CLAIMS = {"gpu": {"device_class": "gpu.example.com", "count": 1}}


def listed(*overrides: dict[str, Any]) -> list[ListedChoice]:
    profiles = [{"slug": f"p{index}", "kubespawner_override": each} for index, each in enumerate(overrides)]
    return list(list_choices(profiles, {}))


def test_equal_claims_are_compiled_once() -> None:
    first, second = listed({"device_claims": CLAIMS}, {"device_claims": CLAIMS, "mem_limit": "2G"})
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.plan is second.choice.plan
    assert second.choice.settings["mem_limit"] == "2G"


def test_extended_resources_are_each_choices_own() -> None:
    limits = {"extra_resource_limits": {"example.com/gpu": "1"}}
    first, second = listed({"device_claims": CLAIMS}, {"device_claims": CLAIMS, **limits})
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.plan.extended_resources.names == ()
    assert second.choice.plan.extended_resources == of_settings(limits)
    assert second.choice.plan.claims == first.choice.plan.claims


@pytest.mark.parametrize("count", [True, 1.0], ids=["true", "a float"])
def test_equal_values_of_different_types_are_distinguished(count: object) -> None:
    claims = {"gpu": {"device_class": "gpu.example.com", "count": count}}
    first, second = listed({"device_claims": CLAIMS}, {"device_claims": claims})
    assert first.problems == ()
    assert [problem.path for problem in second.problems] == [
        "profile_list[1].kubespawner_override.device_claims.gpu.count"
    ]


def test_values_that_are_not_json_are_refused() -> None:
    claims = {"gpu": {"device_class": "gpu.example.com", "where": object()}}
    (choice,) = listed({"device_claims": claims})
    assert [problem.path for problem in choice.problems] == [
        "profile_list[0].kubespawner_override.device_claims.gpu.where"
    ]


def test_the_same_mistake_is_reported_at_each_path() -> None:
    claims = {"gpu": {"device_class": "gpu.example.com", "count": 0}}
    paths = [
        problem.path
        for each in listed({"device_claims": claims}, {"device_claims": claims})
        for problem in each.problems
    ]
    assert paths == [f"profile_list[{index}].kubespawner_override.device_claims.gpu.count" for index in (0, 1)]


def test_settings_of_one_choice_are_not_in_the_next() -> None:
    option = {
        "choices": {
            "small": {"kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "5Gi"}}}}},
            "large": {"kubespawner_override": {"device_claims": {"gpu": {"count": 2}}, "environment": {"LARGE": "1"}}},
            "plain": {"kubespawner_override": {}},
        }
    }
    profile = {
        "kubespawner_override": {"device_claims": CLAIMS, "environment": {}},
        "profile_options": {"size": option},
    }
    small, large, plain = (each.choice for each in list_choices([profile], {}))
    assert small is not None
    assert large is not None
    assert plain is not None
    assert [each.claims[0].requests[0].capacity for each in (small, large, plain)] == [(("memory", "5Gi"),), (), ()]
    assert [each.claims[0].requests[0].count for each in (small, large, plain)] == [1, 2, 1]
    assert [each.settings["environment"] for each in (small, large, plain)] == [{}, {"LARGE": "1"}, {}]
