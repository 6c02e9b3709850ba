"""Limits as configured: read, or refused early with the path, the value found and the values allowed."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.controller.limit_settings import read_groups, read_limits
from dra_spawner.placeholders.planner.limits import Limit
from dra_spawner.profiles.settings_reader import SettingsError
from dra_spawner.service.application import DRASpawnerService

GROUPS = {"teaching": ("gpu-slice", "gpu-share")}
CEL = 'device.driver == "gpu.nvidia.com"'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"placeholders": 60}, Limit("l", placeholders=60), id="placeholders"),
        pytest.param({"devices": 0}, Limit("l", devices=0), id="no devices"),
        pytest.param(
            {"devices": 8, "device_class": "gpu.nvidia.com"},
            Limit("l", devices=8, device_class="gpu.nvidia.com"),
            id="devices of a class",
        ),
        pytest.param(
            {"capacity": {"memory": "80Gi", "cores": 4}, "profile": "gpu/memory=large"},
            Limit("l", capacity={"memory": Quantity.parse("80Gi"), "cores": Quantity.parse(4)}, profiles=("gpu/memory=large",)),
            id="capacities of a choice",
        ),
        pytest.param(
            {"devices": 1, "selector": CEL, "group": "teaching"},
            Limit("l", devices=1, selector=CEL, profiles=GROUPS["teaching"]),
            id="a selector and a group",
        ),
        pytest.param({"devices": 8, "all_hubs": True}, Limit("l", devices=8, all_hubs=True), id="of all hubs"),
    ],
)  # fmt: skip
def test_accepted(value: dict[str, Any], expected: Limit) -> None:
    assert read_limits([{"name": "l", **value}], GROUPS) == (expected,)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param({}, "limits: found {}; allowed: a list of at most 100 entries, each a mapping like", id="a mapping"),
        pytest.param([{}] * 101, "allowed: a list of at most 100 entries, each a mapping like", id="too many"),
        pytest.param([3], "limits[0]: found 3; allowed: a mapping like", id="a number"),
        pytest.param([{"devices": 1}], "limits[0].name: nothing found; allowed: a name for people", id="no name"),
        pytest.param(
            [{"name": "l"}], "limits[0]: nothing found; allowed: at least one of placeholders, devices, capacity", id="no bound"
        ),
        pytest.param(
            [{"name": "l", "devices": -1}], "limits[0].devices: found -1; allowed: a whole number from 0 to 10000", id="negative"
        ),
        pytest.param(
            [{"name": "l", "placeholders": True}],
            "limits[0].placeholders: found True; allowed: a whole number from 0 to 10000",
            id="a truth",
        ),
        pytest.param(
            [{"name": "l", "devices": 1, "clas": "x"}], "limits[0].clas: found 'clas'; allowed: the keys name,", id="a typo"
        ),
        pytest.param(
            [{"name": "l", "capacity": "80Gi"}], "limits[0].capacity: found '80Gi'; allowed: a mapping of capacities", id="an amount"
        ),
        pytest.param([{"name": "l", "capacity": {}}], "limits[0].capacity: found {}; allowed: a mapping", id="no capacity"),
        pytest.param(
            [{"name": "l", "capacity": {"memory": "-1Gi"}}],
            "limits[0].capacity.memory: found '-1Gi'; allowed: a quantity above zero",
            id="a negative amount",
        ),
        pytest.param(
            [{"name": "l", "placeholders": 1, "selector": CEL}],
            f"limits[0].selector: found {CEL!r}; allowed: only beside devices or capacity",
            id="a selector of nothing",
        ),
        pytest.param(
            [{"name": "l", "devices": 1, "selector": "device."}],
            "limits[0].selector: found 'device.'; allowed: a CEL expression, as in a DeviceClass (",
            id="CEL that does not compile",
        ),
        pytest.param(
            [{"name": "l", "devices": 1, "selector": "1"}],
            "limits[0].selector: found '1'; allowed: a CEL expression, as in a DeviceClass (",
            id="CEL that is no condition",
        ),
        pytest.param([{"name": "l", "devices": 1, "selector": " "}], "limits[0].selector: found ' '; allowed: a CEL", id="no CEL"),
        pytest.param(
            [{"name": "l", "devices": 1, "group": "x"}],
            "limits[0].group: found 'x'; allowed: a group of profile_groups (there are: teaching)",
            id="no such group",
        ),
        pytest.param(
            [{"name": "l", "devices": 1, "group": "teaching", "profile": "a"}],
            "limits[0].group: found 'teaching'; allowed: either profile or group",
            id="for two",
        ),
        pytest.param(
            [{"name": "l", "devices": 1, "group": "teaching", "all_hubs": True}],
            "limits[0].all_hubs: found True; allowed: only without profile and group",
            id="profiles of all hubs",
        ),
        pytest.param(
            [{"name": "l", "devices": 1}, {"name": "l", "devices": 2}],
            "limits[1].name: found 'l'; allowed: a name that no other limit has",
            id="one name twice",
        ),
        pytest.param(
            [{"name": "a\nb", "devices": 1}],
            "limits[0].name: found 'a\\nb'; allowed: text of 1 to 253 printable characters",
            id="two lines",
        ),
    ],
)  # fmt: skip
def test_refused(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_limits(value, GROUPS)
    assert problem in str(refused.value)
    if isinstance(value, list):
        with pytest.raises(TraitError, match="limits"):
            DRASpawnerService(config=Config(DRASpawnerService={"limits": value, "profile_groups": {"teaching": ["a"]}}))


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(" && ".join(["true"] * 20_000), id="too long"),
        pytest.param("(" * 3_000 + "true" + ")" * 3_000, id="too deep"),
        pytest.param(
            'device.attributes["a"].all(a, device.attributes["b"].all(b, device.attributes["c"].all(c, '
            'device.attributes["d"].all(d, a == b && c == d))))',
            id="too expensive",
        ),
    ],
)
def test_hostile_selectors_are_refused_at_once(selector: str) -> None:
    with pytest.raises(SettingsError, match="selector"):
        read_limits([{"name": "l", "devices": 1, "selector": selector}], {})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param([], "profile_groups: found []; allowed: a mapping", id="a list"),
        pytest.param({"a": "gpu"}, "profile_groups.a: found 'gpu'; allowed: a list of profiles", id="a text"),
        pytest.param({"a": []}, "profile_groups.a: found []; allowed: a list of profiles", id="nothing"),
        pytest.param({"a": [3]}, "profile_groups.a: found [3]; allowed: a list of profiles", id="a number"),
        pytest.param({3: ["a"]}, "profile_groups: found 3; allowed: names of groups", id="no name"),
    ],
)
def test_groups(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read_groups(value)
    assert problem in str(refused.value)


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
