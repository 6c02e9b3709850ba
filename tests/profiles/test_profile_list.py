"""Profile lists are checked choice by choice."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubespawner.utils import recursive_update

from dra_spawner.profiles.profile_list import profile_list_problems
from dra_spawner.profiles.syntax.layers import MergeConflict, merge_overrides
from tests.all_of_them import all_of_them

CLASS = {"device_class": "gpu.example.com"}


def profile(claims=None, **more):
    override = {} if claims is None else {"device_claims": claims}
    return {"display_name": "GPU", "slug": "gpu", "kubespawner_override": override, **more}


def options(name="memory", **entry):
    return {"profile_options": {name: {"display_name": name, **entry}}}


def choice(claims, **more):
    return {"display_name": "x", "kubespawner_override": {"device_claims": claims}, **more}


def paths(*arguments, **more):
    return [problem.path for problem in profile_list_problems(*arguments, **more)]


def test_a_sound_list_has_no_problems():
    sizes = {size: choice({"gpu": {"capacity": {"memory": size}}}) for size in ("5Gi", "10Gi")}
    sound = [profile({"gpu": CLASS}), profile({"gpu": CLASS}, slug="b", **options(choices=sizes)), profile(slug="c")]
    assert profile_list_problems(sound) == []
    assert profile_list_problems({"a": sound[0], "b": sound[1]}) == []
    assert profile_list_problems(lambda spawner: sound) == []
    assert profile_list_problems([]) == []


def test_a_profile_may_leave_settings_to_its_choices():
    classes = {name: choice({"gpu": {"device_class": f"{name}.example.com"}}) for name in ("whole", "slice")}
    assert profile_list_problems([profile({"gpu": {"count": 1}}, **options(choices=classes))]) == []


def test_merge_is_that_of_kubespawner():
    base = {"gpu": {"device_class": "a", "capacity": {"memory": "5Gi"}, "where": ["x"]}}
    override = {"gpu": {"capacity": {"memory": "10Gi"}, "where": ["y"]}, "nic": {"device_class": "b"}}
    assert merge_overrides(base, override) == {
        "gpu": {"device_class": "a", "capacity": {"memory": "10Gi"}, "where": ["y"]},
        "nic": {"device_class": "b"},
    }
    assert merge_overrides(base, {"gpu": None}) == {}
    assert base["gpu"]["capacity"] == {"memory": "5Gi"}


CHOICE = "profile_list[0].profile_options.memory.choices.big.kubespawner_override.device_claims"
UNLISTED = "profile_list[0].profile_options.memory.unlisted_choice"


@all_of_them("profiles, expected", {
    "in a profile": ([profile({"gpu": {**CLASS, "count": 0}})], "profile_list[0].kubespawner_override.device_claims.gpu.count"),
    "in a dict of profiles": ({"b": profile({"gpu": {}})}, "profile_list.b.kubespawner_override.device_claims.gpu.device_class"),
    "in a choice that is no default": ([profile({"gpu": CLASS}, **options(choices={"big": choice({"gpu": {"capacity": {"memory": "big"}}}), "none": {"display_name": "n", "default": True}}))], f"{CHOICE}.gpu.capacity.memory"),
    "claims as text": ([profile("gpu")], "profile_list[0].kubespawner_override.device_claims"),
    "profile as text": (["gpu"], "profile_list[0]"),
    "misspelt trait": ([{"display_name": "x", "kubespawner_override": {"device_claim": {}}}], "profile_list[0].kubespawner_override.device_claim"),
    "misspelt vlans": ([{"display_name": "x", "kubespawner_override": {"vlan": {}}}], "profile_list[0].kubespawner_override.vlan"),
    "misspelt intel_gas": ([{"display_name": "x", "kubespawner_override": {"intel_gass": {}}}], "profile_list[0].kubespawner_override.intel_gass"),
    "free text without pattern": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "kubespawner_override": {"device_claims": {"gpu": {"capacity": {"memory": "{value}"}}}}}))], f"{UNLISTED}.validation_regex"),
    "free text in CEL": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"gpu": {"where": "device.driver == '{value}'"}}}}))], f"{UNLISTED}.kubespawner_override.device_claims.gpu.where"),
    "free text as class": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"capacity": {"device_class": "{value}"}}}}))], f"{UNLISTED}.kubespawner_override.device_claims.capacity.device_class"),
    "free text as claim": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"gpu": {"claim": "{value}"}}}}))], f"{UNLISTED}.kubespawner_override.device_claims.gpu.claim"),
    "free text in parameters": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"a": {"config": [{"parameters": {"capacity": {"x": "{value}"}}}]}}}}))], f"{UNLISTED}.kubespawner_override.device_claims.a.config[0].parameters.capacity.x"),
    "free text in parameters that look like claims": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"a": {"config": [{"parameters": {"device_claims": {"x": {"product": "{value}"}}}}]}}}}))], f"{UNLISTED}.kubespawner_override.device_claims.a.config[0].parameters.device_claims.x.product"),
    "free text as name": ([profile({"gpu": CLASS}, **options(unlisted_choice={"enabled": True, "validation_regex": r"\d+Gi", "kubespawner_override": {"device_claims": {"{value}": CLASS}}}))], f"{UNLISTED}.kubespawner_override.device_claims (a key)"),
})  # fmt: skip
def test_refused_with_the_path_of_the_choice(profiles, expected):
    assert paths(profiles, known_traits={"device_claims", "vlans", "intel_gas"}) == [expected]


def test_free_text_may_be_a_quantity_or_a_product():
    claims = {
        "gpu": {"capacity": {"memory": "{value}"}, "product": "{value}"},
        "b": {"requests": {"c": {"product": "{value}"}, "d": {"first_available": {"e": {"min_memory": "{value}"}}}}},
        "f": {"first_available": [{"name": "g", "capacity": {"memory": "{value}"}}]},
    }
    entry = {"enabled": True, "validation_regex": r"\d{1,2}Gi", "kubespawner_override": {"device_claims": claims}}
    assert profile_list_problems([profile({"gpu": CLASS}, **options(unlisted_choice=entry))]) == []


def test_the_spawners_own_claims_are_checked_too():
    assert paths([], {"gpu": {"count": 1}}) == ["device_claims.gpu.device_class"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param({"profile_options": ["o"]}, ".profile_options", id="options as list"),
        pytest.param({"profile_options": {"o": "x"}}, ".profile_options.o", id="option as text"),
        pytest.param({"profile_options": {"o": {"choices": ["a"]}}}, ".profile_options.o.choices", id="choices as list"),
        pytest.param({"profile_options": {"o": {"choices": {"a": "x"}}}}, ".profile_options.o.choices.a", id="choice as text"),
        pytest.param({"profile_options": {"o": {"unlisted_choice": True}}}, ".profile_options.o.unlisted_choice", id="free text as bool"),
        pytest.param({"display_name": None}, ".display_name", id="no name"),
        pytest.param({"device_claims": {"gpu": CLASS}}, ".device_claims", id="claims beside the override"),
        pytest.param({"kubespawner_override": {"device_claims": None}}, ".kubespawner_override.device_claims", id="claims null"),
    ],
)  # fmt: skip
def test_shapes_that_kubespawner_would_fail_on(entry, expected):
    assert paths([{**profile({"gpu": CLASS}), **entry}]) == [f"profile_list[0]{expected}"]


def test_a_mapping_over_a_single_value_is_a_problem():
    choices = {"a": choice({"gpu": {"device_class": {"x": 1}}})}
    found = paths([profile({"gpu": CLASS}, **options(choices=choices))])
    assert (
        "profile_list[0].profile_options.memory.choices.a.kubespawner_override.device_claims.gpu.device_class" in found
    )


def test_a_problem_of_the_profile_is_reported_once_with_its_path():
    choices = {name: choice({"gpu": {"product": name}}) for name in ("a", "b", "c")}
    wrong = profile({"gpu": {**CLASS, "count": 0}}, **options(choices=choices))
    assert paths([wrong]) == ["profile_list[0].kubespawner_override.device_claims.gpu.count"]


@given(
    nested := st.recursive(
        st.none() | st.integers() | st.text(max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    nested,
)
def test_merge_agrees_with_kubespawner(base, override):
    base, override = {"x": base}, {"x": override}
    expected = copy.deepcopy(base)
    try:
        recursive_update(expected, copy.deepcopy(override))
    except (TypeError, AttributeError):
        with pytest.raises(MergeConflict):
            merge_overrides(base, override)
    else:
        assert merge_overrides(base, override) == expected
