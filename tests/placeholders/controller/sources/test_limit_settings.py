"""Limits as configured: read, or refused early with the path, the value found and the values allowed."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.controller.sources.limit_settings import read_groups, read_limits
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.profiles.syntax.settings_reader import SettingsError
from dra_spawner.service.application import DRASpawnerService
from tests.placeholders.controller.refusals import wrong_refusals

GROUPS = {"teaching": ("gpu-slice", "gpu-share")}
CEL = 'device.driver == "gpu.nvidia.com"'


def test_accepted() -> None:
    capacity = {"memory": Quantity.parse("80Gi"), "cores": Quantity.parse(4)}
    rows: tuple[tuple[dict[str, Any], Limit], ...] = (
        ({"placeholders": 60}, Limit("l", placeholders=60)),
        ({"devices": 0}, Limit("l", devices=0)),
        ({"devices": 8, "device_class": "gpu.nvidia.com"}, Limit("l", devices=8, device_class="gpu.nvidia.com")),
        (
            {"capacity": {"memory": "80Gi", "cores": 4}, "profile": "gpu/memory=large"},
            Limit("l", capacity=capacity, profiles=("gpu/memory=large",)),
        ),
        (
            {"devices": 1, "selector": CEL, "group": "teaching"},
            Limit("l", devices=1, selector=CEL, profiles=GROUPS["teaching"]),
        ),
        ({"devices": 8, "all_hubs": True}, Limit("l", devices=8, all_hubs=True)),
    )
    for value, expected in rows:
        assert read_limits([{"name": "l", **value}], GROUPS) == (expected,)


NUMBER = "allowed: a whole number from 0 to 10000"
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, ": nothing found; allowed: at least one of placeholders, devices, capacity"),
    ({"devices": -1}, f".devices: found -1; {NUMBER}"),
    ({"placeholders": True}, f".placeholders: found True; {NUMBER}"),
    ({"devices": 1, "clas": "x"}, ".clas: found 'clas'; allowed: the keys name,"),
    ({"capacity": "80Gi"}, ".capacity: found '80Gi'; allowed: a mapping of capacities"),
    ({"capacity": {}}, ".capacity: found {}; allowed: a mapping"),
    ({"capacity": {"memory": "-1Gi"}}, ".capacity.memory: found '-1Gi'; allowed: a quantity above zero"),
    ({"placeholders": 1, "selector": CEL}, f".selector: found {CEL!r}; allowed: only beside devices or capacity"),
    (
        {"devices": 1, "selector": "device."},
        ".selector: found 'device.'; allowed: a CEL expression, as in a DeviceClass (",
    ),
    ({"devices": 1, "selector": "1"}, ".selector: found '1'; allowed: a CEL expression, as in a DeviceClass ("),
    ({"devices": 1, "selector": " "}, ".selector: found ' '; allowed: a CEL"),
    ({"devices": 1, "group": "x"}, ".group: found 'x'; allowed: a group of profile_groups (there are: teaching)"),
    ({"devices": 1, "group": "teaching", "profile": "a"}, ".group: found 'teaching'; allowed: either profile or group"),
    (
        {"devices": 1, "group": "teaching", "all_hubs": True},
        ".all_hubs: found True; allowed: only without profile and group",
    ),
    ({"name": "a\nb", "devices": 1}, ".name: found 'a\\nb'; allowed: text of 1 to 253 printable characters"),
)
REFUSED_LISTS: tuple[tuple[Any, str], ...] = (
    ({}, "limits: found {}; allowed: a list of at most 100 entries, each a mapping like"),
    ([{}] * 101, "allowed: a list of at most 100 entries, each a mapping like"),
    ([3], "limits[0]: found 3; allowed: a mapping like"),
    ([{"devices": 1}], "limits[0].name: nothing found; allowed: a name for people"),
    (
        [{"name": "l", "devices": 1}, {"name": "l", "devices": 2}],
        "limits[1].name: found 'l'; allowed: a name that no other limit has",
    ),
)


def test_refused() -> None:
    rows = [*(([{"name": "l", **value}], f"limits[0]{problem}") for value, problem in REFUSED), *REFUSED_LISTS]
    assert wrong_refusals(lambda value: read_limits(value, GROUPS), rows) == {}
    for value, _ in rows:
        if isinstance(value, list):
            config = Config(DRASpawnerService={"limits": value, "profile_groups": {"teaching": ["a"]}})
            with pytest.raises(TraitError, match="limits"):
                DRASpawnerService(config=config)


def test_hostile_selectors_are_refused_at_once() -> None:
    """Too long, too deep, too expensive."""
    pairs = "a == b && c == d"
    for letter in "dcba":
        pairs = f'device.attributes["{letter}"].all({letter}, {pairs})'
    for selector in (" && ".join(["true"] * 20_000), "(" * 3_000 + "true" + ")" * 3_000, pairs):
        with pytest.raises(SettingsError, match="selector"):
            read_limits([{"name": "l", "devices": 1, "selector": selector}], {})


def test_groups() -> None:
    rows: tuple[tuple[Any, str], ...] = (
        ([], "profile_groups: found []; allowed: a mapping"),
        ({"a": "gpu"}, "profile_groups.a: found 'gpu'; allowed: a list of profiles"),
        ({"a": []}, "profile_groups.a: found []; allowed: a list of profiles"),
        ({"a": [3]}, "profile_groups.a: found [3]; allowed: a list of profiles"),
        ({3: ["a"]}, "profile_groups: found 3; allowed: names of groups"),
    )
    assert wrong_refusals(read_groups, rows) == {}


def test_settings_reach_the_policy() -> None:
    limits = [{"name": "l", "devices": 3, "group": "teaching"}]
    settings = {
        "namespace": "hub",
        "limits": limits,
        "profile_groups": {"teaching": ["a"]},
        "max_failed_replacements": 2,
    }
    for service in (DRASpawnerService(**settings), DRASpawnerService(config=Config(DRASpawnerService=settings))):
        policy = service.controller_settings().policy
        assert policy.limits == (Limit("l", devices=3, profiles=("a",)),)
        assert policy.renewal.max_failed == 2
