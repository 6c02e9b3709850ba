"""``instead``: which names are refused by the check, and what editors know of it."""

from __future__ import annotations

from typing import Any

import jsonschema

from dra_spawner.profiles.instead import choice_words, instead_problems
from dra_spawner.profiles.profile_list import problems_around_claims
from dra_spawner.profiles.profiles_schema import profiles_schema
from tests.all_of_them import all_of_them


def gpu(instead: Any = None, of_large: Any = None) -> list[dict[str, Any]]:
    """Two profiles; the first one has sizes, and its choice and the large size name others."""
    large = {"kubespawner_override": {} if of_large is None else {"instead": of_large}}
    options = {
        "memory": {"choices": {"small": {"default": True}, "large": large, "a,b": {}}},
        "share": {"choices": "from_policy"},
    }
    override = {} if instead is None else {"instead": instead}
    return [
        {"display_name": "GPU", "slug": "gpu", "profile_options": options, "kubespawner_override": override},
        {"display_name": "Slice", "slug": "slice", "kubespawner_override": {"instead": ["gpu"]}},
    ]


@all_of_them(
    "instead, of_large, problem",
    {
        "another profile": (["slice"], None, ""),
        "a circle: only what the chosen one names is tried": (["slice", "gpu/memory=large"], ["gpu", "slice"], ""),
        "a size, with a comma in its name": (["gpu/memory=a,b"], None, ""),
        "of two options": (["gpu/memory=large,share=10Gi"], None, ""),
        "nothing": ([], None, ""),
        "itself": (["gpu"], None, "another choice than the one that names it"),
        "itself by its default": (["gpu/memory=small"], None, "another choice than the one that names it"),
        "a size that names itself": (None, ["gpu/memory=large"], "another choice"),
        "a profile that is gone": (["tpu"], None, "a choice of the list: gpu, slice"),
        "a size that is gone": (["gpu/memory=huge"], None, "a choice of the list"),
        "an option that is gone": (["slice/memory=small"], None, "a choice of the list"),
        "twice": (["slice", "slice"], None, "each choice once"),
        "too many": (["slice"] * 9, None, "a list of at most 8 names"),
        "a text": ("slice", None, "a list of at most 8 names"),
        "a number": ([5], None, "a choice of the list"),
        "a mapping": ({"slice": 1}, None, "a list of at most 8 names"),
        "hostile": (["gpu/=", "x" * 10_000], None, "a choice of the list"),
    },
)
def test_names(instead: Any, of_large: Any, problem: str) -> None:
    found = instead_problems(gpu(instead, of_large))
    if not problem:
        assert found == []
        return
    assert problem in found[0].allowed
    assert found[0].path.startswith("profile_list[0].")
    assert found[0].path.partition("instead")[0].endswith("kubespawner_override.")
    assert found[0] in problems_around_claims(gpu(instead, of_large), {}), "the check says so"


def test_a_list_that_is_none_has_no_problem() -> None:
    for junk in (None, 5, [None, 5, {}, {"profile_options": 5}], {"a": {"kubespawner_override": 5}}):
        assert instead_problems(junk) == []


def test_editors_know_it() -> None:
    validator = jsonschema.Draft202012Validator(profiles_schema())
    assert validator.is_valid(gpu(["slice"], ["gpu"]))
    for wrong in ("slice", [5], ["slice", "slice"], [""], ["a", "b", "c", "d", "e", "f", "g", "h", "i"]):
        assert not validator.is_valid(gpu(wrong)), wrong


def test_words_of_the_form() -> None:
    profiles = gpu()
    profiles[0]["display_name"] = "A <b>whole</b> GPU"
    profiles[0]["profile_options"]["memory"]["choices"]["large"] = {"display_name": "<i>40</i> GiB"}
    words = {
        name: choice_words(profiles, name) for name in ("gpu", "gpu/memory=large", "gpu/memory=small", "slice", "tpu")
    }
    assert words == {
        "gpu": "A whole GPU",
        "gpu/memory=large": "A whole GPU, 40 GiB",
        "gpu/memory=small": "A whole GPU",
        "slice": "Slice",
        "tpu": "",
    }
    profiles[0]["profile_options"]["memory"]["choices"] = "from_policy"
    sizes = [choice_words(profiles, f"gpu/memory={size}") for size in ("5Gi", "half")]
    assert sizes == ["A whole GPU, 5 GiB", "A whole GPU, half"]
    assert [choice_words(profiles, junk) for junk in (None, 5, "", "gpu/x=1")] == [""] * 4
