"""One device out of use: the DeviceTaintRules for the devices that people drain, and what must change. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.placeholders.planner.targets.overrides import Override

_CLOSES: Final = "NoSchedule"
_EVICTS: Final = "NoExecute"
_LONGEST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class RuleChanges:
    """What must be written, in this order."""

    deleted: tuple[JsonObject, ...] = ()
    """Present rules."""
    replaced: tuple[JsonObject, ...] = ()
    """Changed rules, with the version of the present ones."""
    created: tuple[JsonObject, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deleted or self.replaced or self.created)


def device_of(name: str) -> DeviceId | None:
    """The device that a setting names as ``driver/pool/device``, where a pool may have slashes; None if it is none."""
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    return DeviceId(driver, pool, device) if driver and pool and device else None


def rules_of(
    settings: Mapping[str, Override], now: datetime, hub_namespace: str, installation: str
) -> dict[str, JsonObject]:
    """The rule for each drained device, by its name; without ``apiVersion``.

    Parameters
    ----------
    settings
        Settings in effect by the device's name.
    hub_namespace, installation
        Whose rules they are; the label of this service's objects may be empty.
    """
    found = {}
    for name, setting in settings.items():
        device = device_of(name)
        if device is None:
            continue
        rule = _rule(device, setting, now, hub_namespace, installation)
        found[rule["metadata"]["name"]] = rule
    return found


def needed_changes(wanted: Mapping[str, JsonObject], present: Iterable[JsonObject]) -> RuleChanges:
    """The changes that make the present rules of this service the wanted ones.

    Parameters
    ----------
    present
        Only rules of this service.
    """
    by_name = {each["metadata"]["name"]: each for each in present}
    return RuleChanges(
        tuple(each for name, each in by_name.items() if name not in wanted),
        tuple(
            _with_version(each, by_name[name])
            for name, each in wanted.items()
            if name in by_name and not _is_as_wanted(each, by_name[name])
        ),
        tuple(each for name, each in wanted.items() if name not in by_name),
    )


def _rule(device: DeviceId, setting: Override, now: datetime, hub_namespace: str, installation: str) -> JsonObject:
    evicts = setting.evict_at is not None and setting.evict_at <= now
    digest = hashlib.sha256("/".join((hub_namespace, installation, *device)).encode()).hexdigest()[:16]
    notes = {
        names.REASON: setting.reason[:_LONGEST_REASON],
        names.DRAINED_UNTIL: setting.until.isoformat() if setting.until is not None else "",
        names.EVICTS_AT: setting.evict_at.isoformat() if setting.evict_at is not None else "",
    }
    return {
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": f"{names.TAINT_RULE_PREFIX}{digest}",
            "labels": {
                names.MANAGED_BY: names.MANAGER,
                names.HUB_NAMESPACE: hub_namespace,
                **({names.INSTALLATION: installation} if installation else {}),
            },
            "annotations": {key: value for key, value in notes.items() if value},
        },
        "spec": {
            "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
            "taint": {"key": names.DRAINED_DEVICE, "effect": _EVICTS if evicts else _CLOSES},
        },
    }


def _is_as_wanted(wanted: JsonObject, found: JsonObject) -> bool:
    notes = found["metadata"].get("annotations") or {}
    spec = found.get("spec") or {}
    taint = {key: value for key, value in (spec.get("taint") or {}).items() if key != "timeAdded"}
    own = {key: notes[key] for key in _NOTES if key in notes}
    there = (own, spec.get("deviceSelector"), taint)
    return there == (wanted["metadata"]["annotations"], wanted["spec"]["deviceSelector"], wanted["spec"]["taint"])


_NOTES: Final = (names.REASON, names.DRAINED_UNTIL, names.EVICTS_AT)


def _with_version(wanted: JsonObject, found: JsonObject) -> JsonObject:
    version = found["metadata"].get("resourceVersion", "")
    return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
