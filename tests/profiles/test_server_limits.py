"""Limits of servers in profiles: hub and check refuse at once what the spawner's traits would refuse at each start."""

from __future__ import annotations

from typing import Any

from traitlets import TraitError

from dra_spawner.profiles.profile_list import profile_list_problems
from dra_spawner.profiles.server_limits import allowed_instead
from dra_spawner.spawner.settings import SpawnerSettings
from tests.all_of_them import all_of_them

VALUES: list[Any] = [
    0,
    1,
    119,
    120,
    359,
    360,
    599,
    600,
    366 * 86_400,
    366 * 86_400 + 1,
    -1,
    900.0,
    900.5,
    float("inf"),
    float("nan"),
    "1h",
    None,
    [],
    {},
]


@all_of_them("name", ["devices_idle_timeout", "devices_lifetime", "devices_lifetime_notice", "take_instead"])
def test_what_is_allowed_is_what_the_spawner_takes(name: str) -> None:
    class Traits(SpawnerSettings):
        def __init__(self) -> None:
            pass  # no cluster

    spawner = Traits()
    for value in (*VALUES, *((True, False) if name == "take_instead" else ())):
        try:
            setattr(spawner, name, value)
            is_taken = True
        except TraitError:
            is_taken = False
        assert is_taken is (not allowed_instead(name, value)), value


@all_of_them(
    "override, problem",
    {
        "too short": ({"devices_lifetime": 5}, "found 5; allowed: 0, or from 600 to 31622400 seconds (366 days)"),
        "in words": ({"devices_lifetime": "8h"}, "found '8h'; allowed: 0, or from 600"),
        "a fraction": ({"devices_idle_timeout": 3600.5}, "found 3600.5; allowed: 0, or at least 360 seconds"),
        "too short a notice": ({"devices_lifetime_notice": 10}, "found 10; allowed: at least 120 seconds"),
        "yes as a text": ({"take_instead": "yes"}, "found 'yes'; allowed: true or false"),
        "null": ({"devices_lifetime": None}, "found None; allowed: 0, or from 600"),
        "a function": ({"devices_lifetime": lambda spawner: 600}, ""),
        "all of them": (
            {"devices_lifetime": 3600, "devices_idle_timeout": 0, "take_instead": True, "cpu_limit": "x"},
            "",
        ),
    },
)
def test_a_profile_or_a_choice_is_refused_with_its_path(override: dict[str, Any], problem: str) -> None:
    profile = {"display_name": "GPU", "slug": "gpu", "kubespawner_override": override}
    choices = {"long": {"display_name": "Long", "kubespawner_override": override}}
    option = {"display_name": "GPU", "slug": "gpu", "profile_options": {"time": {"choices": choices}}}
    name = next(iter(override))
    for listed, path in (
        (profile, f"profile_list[0].kubespawner_override.{name}"),
        (option, f"profile_list[0].profile_options.time.choices.long.kubespawner_override.{name}"),
    ):
        found = list(map(str, profile_list_problems([listed])))
        assert [each.startswith(f"{path}: {problem}") for each in found] == ([True] if problem else []), found
