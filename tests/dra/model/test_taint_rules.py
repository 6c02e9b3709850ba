"""DeviceTaintRules: which devices a rule taints, for the scheduler and for a claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dra_spawner.dra.model.objects import DeviceTaintRule, ObjectError
from dra_spawner.dra.model.taint_rules import with_rules
from dra_spawner.dra.scheduler_rules import RULES
from tests.all_of_them import all_of_them
from tests.dra.builders import DRIVER, device_json, make_slice
from tests.oracle.taint_states import digest, states, taints_of

RECORDED = Path(__file__).parent / "taint_rules.txt"
TAINT = {"key": "example.com/upkeep", "value": "fan", "effect": "NoSchedule"}


def rule_json(selector: Any, **taint: str) -> dict[str, Any]:
    chosen = {} if selector is None else {"deviceSelector": selector}
    return {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": {**chosen, "taint": {**TAINT, **taint}}}


@all_of_them(
    "selector, tainted",
    {
        "driver": ({"driver": DRIVER}, ["d0", "d1"]),
        "other driver": ({"driver": "nic.example.com"}, []),
        "pool": ({"pool": "p"}, ["d0", "d1"]),
        "other pool": ({"pool": "q"}, []),
        "device": ({"device": "d1"}, ["d1"]),
        "device of another pool": ({"pool": "q", "device": "d1"}, []),
        "all three": ({"driver": DRIVER, "pool": "p", "device": "d0"}, ["d0"]),
        "empty": ({}, ["d0", "d1"]),
        "null fields": ({"driver": None, "device": None}, ["d0", "d1"]),
    },
)
def test_selectors(selector: Any, tainted: list[str]) -> None:
    published = make_slice(devices=[device_json("d0"), device_json("d1")])
    rule = DeviceTaintRule.from_json(rule_json(selector))
    seen = with_rules(published, [rule])
    assert [device.id.device for device in seen.devices if device.taints] == tainted
    assert [device.id.device for device in published.devices if rule.selects(device.id)] == tainted
    assert (seen is published) == (not tainted)


def test_a_taint_is_added_to_those_of_the_driver() -> None:
    published = make_slice(devices=[device_json("d0", taints=[{"key": "sick", "effect": "None"}])])
    [device] = with_rules(published, [DeviceTaintRule.from_json(rule_json({}))]).devices
    assert [taint.key for taint in device.taints] == ["sick", "example.com/upkeep"]


@all_of_them(
    "change, path",
    {
        "no taint": (lambda rule: rule["spec"].pop("taint"), "spec.taint"),
        "no key": (lambda rule: rule["spec"]["taint"].pop("key"), "spec.taint.key"),
        "no effect": (lambda rule: rule["spec"]["taint"].pop("effect"), "spec.taint.effect"),
        "a driver that is a number": (
            lambda rule: rule["spec"]["deviceSelector"].update(driver=1),
            "spec.deviceSelector.driver",
        ),
        "a selector of 1.34": (
            lambda rule: rule["spec"]["deviceSelector"].update(selectors=[{"cel": {"expression": "true"}}]),
            "spec.deviceSelector.selectors",
        ),
        "a class of 1.34": (
            lambda rule: rule["spec"]["deviceSelector"].update(deviceClassName="gpu"),
            "spec.deviceSelector.deviceClassName",
        ),
    },
)
def test_wrong_rules_are_refused_by_field(change: Any, path: str) -> None:
    rule = rule_json({"driver": DRIVER})
    change(rule)
    with pytest.raises(ObjectError) as raised:
        DeviceTaintRule.from_json(rule)
    assert raised.value.path == path


def test_a_thousand_random_states_are_as_the_scheduler_tracks_them() -> None:
    """The answers of the trackers of 1.36.3 and of 1.37.2, recorded by ``python -m tests.oracle.trackers``."""
    recorded = [line.split() for line in RECORDED.read_text().splitlines()]
    assert len(recorded) == 1_000
    different = [
        number
        for number, (state, answers) in enumerate(zip(states(1_000, seed=1), recorded, strict=True))
        if [digest(taints_of(state, RULES[release])) for release in ((1, 36), (1, 37))] != answers
    ]
    assert different == []
    assert sum(before != after for before, after in recorded) > 100, "rules without a selector make the difference"
