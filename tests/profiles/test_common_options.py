"""Options that all profiles have."""

from __future__ import annotations

import copy
from typing import Any

from dra_spawner.profiles.common_options import with_common_options
from tests.all_of_them import all_of_them

COMMON: dict[str, Any] = {"image": {"choices": {"lab": {}}}, "hours": {"choices": {"2": {}}}}
OWN: dict[str, Any] = {"memory": {"choices": {"5Gi": {}}}, "image": {"choices": {"torch": {}}}}


@all_of_them(
    "profile, found",
    {
        "no options of its own": ({"slug": "a"}, {"slug": "a", "profile_options": COMMON}),
        "an option of the same name": (
            {"profile_options": OWN},
            {"profile_options": {**OWN, "hours": COMMON["hours"]}},
        ),
        "options that are none": ({"profile_options": 5}, {"profile_options": 5}),
        "no profile": (5, 5),
    },
)
def test_a_profile_has_the_common_options_after_its_own(profile: Any, found: Any) -> None:
    before = copy.deepcopy(profile)
    for listed, expected in (([profile], [found]), ((profile,), [found]), ({"b": profile}, {"b": found})):
        made = with_common_options(listed, COMMON)
        assert made == expected
        assert with_common_options(made, COMMON) == made
    options = found.get("profile_options") if isinstance(found, dict) else None
    if isinstance(options, dict):
        assert list(with_common_options([profile], COMMON)[0]["profile_options"]) == list(options)
    assert profile == before


def test_without_common_options_or_a_list_nothing_changes() -> None:
    profiles = [{"profile_options": OWN}]
    no_options: list[Any] = [{}, None, 5, [COMMON]]
    for options in no_options:
        assert with_common_options(profiles, options) is profiles
    no_profiles: list[Any] = [None, [], "text", print]
    for listed in no_profiles:
        assert with_common_options(listed, COMMON) == listed
