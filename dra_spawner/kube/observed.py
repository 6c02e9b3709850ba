"""Metadata and conditions of API objects, which the simulator does not model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from types import MappingProxyType
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject

KEPT_ANNOTATIONS: Final = (names.HUB_PREFIX, names.AUTOSCALER_PREFIX)
"""Prefixes of the annotations that are kept; others, like ``last-applied-configuration``, may be large."""

_SHARED_LEVELS: Final = 30

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Condition:
    """An entry of ``status.conditions``."""

    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str = ""
    message: str = ""
    since: str = ""
    """``lastTransitionTime``."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An entry of ``metadata.ownerReferences``."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """Metadata and conditions of an object, as last seen."""

    uid: str
    resource_version: str
    created: str = ""
    """``metadata.creationTimestamp``."""
    deleted: str = ""
    """``metadata.deletionTimestamp``; empty while the object is not being deleted."""
    grace_seconds: int | None = None
    """``metadata.deletionGracePeriodSeconds``."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations with a prefix in `KEPT_ANNOTATIONS`."""
    owners: tuple[Owner, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    """By type."""

    @property
    def scheduler_message(self) -> str:
        """The scheduler's message about an unschedulable pod; empty for any other, gated pods included."""
        scheduled = self.conditions.get("PodScheduled")
        if scheduled is None or scheduled.status != "False" or scheduled.reason == "SchedulingGated":
            return ""
        return scheduled.message or scheduled.reason

    @classmethod
    def from_json(cls, obj: JsonObject) -> ObservedObject:
        """From an API object; fields of the wrong type are left out."""
        metadata = obj["metadata"]
        status = obj.get("status")
        conditions = status.get("conditions") if isinstance(status, dict) else None
        return cls(
            uid=_text(metadata, "uid"),
            resource_version=_text(metadata, "resourceVersion"),
            created=_text(metadata, "creationTimestamp"),
            deleted=_text(metadata, "deletionTimestamp"),
            grace_seconds=found if type(found := metadata.get("deletionGracePeriodSeconds")) is int else None,
            labels=_texts(metadata.get("labels")),
            annotations=_texts(metadata.get("annotations"), KEPT_ANNOTATIONS),
            owners=tuple(
                Owner(_text(each, "kind"), _text(each, "name"), _text(each, "uid"))
                for each in metadata.get("ownerReferences") or ()
            ),
            conditions={
                intern(_text(each, "type")): Condition(
                    intern(_text(each, "status")),
                    intern(_text(each, "reason")),
                    intern(_text(each, "message")),
                    _text(each, "lastTransitionTime"),
                )
                for each in conditions or ()
                if isinstance(each, dict)
            }
            or _NO_CONDITIONS,
        )


def share_strings(value: Any, levels: int = _SHARED_LEVELS) -> Any:
    """The same JSON value with interned strings: each is in memory once.

    Parameters
    ----------
    levels
        Values nested deeper stay as they are; no modelled field is.
    """
    if isinstance(value, str):
        return intern(value)
    if not levels:
        return value
    if isinstance(value, dict):
        return {intern(name): share_strings(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [share_strings(item, levels - 1) for item in value]
    return value


def without_parameters(kind: str, obj: JsonObject) -> JsonObject:
    """A claim, template or class without opaque parameters; any other object unchanged.

    Only drivers read them, and they may be large JSON of any depth.
    """
    path = _CONFIG_PATHS.get(kind)
    return _without_parameters(obj, path) if path is not None else obj


_CONFIG_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec", "devices", "config"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "config"),
    "DeviceClass": ("spec", "config"),
}


def _without_parameters(obj: JsonObject, path: Sequence[str]) -> JsonObject:
    name, *rest = path
    inner = obj.get(name)
    if rest and isinstance(inner, dict):
        changed = _without_parameters(inner, rest)
        return obj if changed is inner else {**obj, name: changed}
    if not rest and isinstance(inner, list):
        return {**obj, name: [_without_opaque(entry) for entry in inner]}
    return obj


def _without_opaque(entry: Any) -> Any:
    opaque = entry.get("opaque") if isinstance(entry, dict) else None
    if not isinstance(opaque, dict):
        return entry
    return {**entry, "opaque": {name: value for name, value in opaque.items() if name != "parameters"}}


_NO_CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType({})


def _text(obj: Mapping[str, Any], name: str) -> str:
    value = obj.get(name)
    return value if isinstance(value, str) else ""


def _texts(found: object, prefixes: tuple[str, ...] = ("",)) -> Mapping[str, str]:
    """Texts by name, interned: thousands of objects share them."""
    if not isinstance(found, dict):
        return _NONE
    kept = {
        intern(name): intern(value)
        for name, value in found.items()
        if isinstance(value, str) and name.startswith(prefixes)
    }
    return kept or _NONE
