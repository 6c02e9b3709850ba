"""What users of a drained device are told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_spawner import names
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.placeholders.planner.targets.device_drains import rules_of
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from dra_spawner.spawner.devices.drain_notes import drain_notes
from dra_spawner.spawner.my_devices.device_health import HealthState
from dra_spawner.spawner.my_devices.own_devices import own_devices
from dra_spawner.spawner.my_devices.published import PublishedDevices
from tests.spawner.my_devices.objects import claim, gpu, pod, slice_of

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def test_the_user_is_told_why_and_until_when() -> None:
    obj = claim()
    (result,) = obj["status"]["allocation"]["devices"]["results"]
    device = DeviceId(result["driver"], result["pool"], result["device"])
    for evict_at, told in ((None, "its next start gets another device"), (NOW, "ended at 2027-01-31 12:00 UTC")):
        setting = Override(OverrideKind.DEVICES, "/".join(device), "user ada", NOW, None, "fan", None, evict_at)
        rules = rules_of({setting.name: setting}, NOW, "jhub", "")
        found = own_devices(pod(), [obj], PublishedDevices([slice_of(gpu())], drain_notes(rules.values())))
        (health,) = (each.health for each in found.devices)
        assert health.state is HealthState.WITHDRAWN
        assert "This device is taken out of use (fan)." in health.sentence
        assert told in found.withdrawn


def test_rules_of_others_and_broken_ones_say_nothing() -> None:
    taint = {"key": names.DRAINED_DEVICE, "effect": "NoSchedule"}
    rules: list[dict[str, Any]] = [
        {"metadata": {}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}},
        {"metadata": {}, "spec": {"taint": taint}},
        {"metadata": {}, "spec": {"deviceSelector": None, "taint": {"key": "x"}}},
        {"metadata": {}},
        {},
    ]
    assert drain_notes(rules) == {}
    odd = {"metadata": {"annotations": {names.REASON: "a\x07b" * 200, names.EVICTS_AT: "soon"}}}
    odd["spec"] = {"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}, "taint": taint}
    (note,) = drain_notes([odd]).values()
    assert note.evict_at is None
    assert note.reason.isprintable()
    assert len(note.reason) <= 200
