"""Rules for drained devices: which are wanted at a time, and what must be written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner import names
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.placeholders.controller.sources.stored_overrides import overrides_data, read_overrides
from dra_spawner.placeholders.planner.targets.device_drains import device_of, needed_changes, rules_of
from dra_spawner.placeholders.planner.targets.overrides import (
    Override,
    OverrideKind,
    Overrides,
)
from tests.all_of_them import all_of_them

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
NAME = "gpu.example.com/rack-1/node-a/gpu-0"
HUB = ("jhub", "dra-spawner")


def setting(name: str = NAME, **more: Any) -> Override:
    return Override(OverrideKind.DEVICES, name, "user ada", NOW, **more)


def wanted(now: datetime = NOW, hub: tuple[str, str] = HUB, **more: Any) -> dict[str, Any]:
    return rules_of({NAME: setting(**more)}, now, *hub)


@all_of_them(
    "name, device",
    {
        "a pool with slashes": (NAME, DeviceId("gpu.example.com", "rack-1/node-a", "gpu-0")),
        "a plain one": ("d/p/x", DeviceId("d", "p", "x")),
        "no pool": ("d/x", None),
        "no device": ("d/p/", None),
        "no driver": ("/p/x", None),
        "nothing": ("", None),
    },
)
def test_names_of_devices(name: str, device: DeviceId | None) -> None:
    assert device_of(name) == device


def test_a_rule_closes_its_device_and_evicts_at_the_deadline() -> None:
    at = NOW + timedelta(hours=1)
    (rule,) = wanted(reason="fan", evict_at=at, until=at + timedelta(days=1)).values()
    found = DeviceTaintRule.from_json(rule)
    assert found.selects(DeviceId("gpu.example.com", "rack-1/node-a", "gpu-0"))
    assert not found.selects(DeviceId("gpu.example.com", "rack-1/node-a", "gpu-1"))
    assert (found.taint.key, found.taint.effect) == (names.DRAINED_DEVICE, "NoSchedule")
    notes = rule["metadata"]["annotations"]
    assert (notes[names.REASON], notes[names.EVICTS_AT]) == ("fan", at.isoformat())
    (later,) = wanted(at, reason="fan", evict_at=at).values()
    assert later["spec"]["taint"]["effect"] == "NoExecute"


def test_only_what_differs_is_written() -> None:
    (rule,) = wanted(reason="fan").values()
    changes = needed_changes(wanted(reason="fan"), [])
    assert (changes.created, changes.replaced, changes.deleted) == ((rule,), (), ())
    # As the API server stores it.
    stored = {**rule, "metadata": {**rule["metadata"], "resourceVersion": "7"}}
    stored["spec"] = {**rule["spec"], "taint": {**rule["spec"]["taint"], "timeAdded": "2027-01-31T12:00:00Z"}}
    assert not needed_changes(wanted(reason="fan"), [stored])
    (replaced,) = needed_changes(wanted(reason="power"), [stored]).replaced
    assert replaced["metadata"]["resourceVersion"] == "7"
    assert replaced["metadata"]["annotations"][names.REASON] == "power"
    assert needed_changes({}, [stored]).deleted == (stored,)


def test_hubs_do_not_share_a_rule() -> None:
    assert not wanted().keys() & wanted(hub=("other", "dra-spawner")).keys()
    assert not wanted().keys() & wanted(hub=("jhub", "other")).keys()


def test_the_deadline_is_stored() -> None:
    stored = Overrides({(OverrideKind.DEVICES, NAME): setting(evict_at=NOW, reason="fan")})
    assert read_overrides({"data": overrides_data(stored)}).settings == stored.settings
