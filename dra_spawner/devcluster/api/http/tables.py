"""Objects as rows of a ``Table`` (``meta.k8s.io/v1``): what ``kubectl get`` prints."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import (
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    ResourceType,
)
from dra_spawner.devcluster.api.storage.deletion import parse_timestamp

_NONE = "<none>"
_UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: title, function that returns the content, and whether only ``-o wide`` shows it."""

    name: str
    cell: Callable[[JsonObject, datetime], Any]
    wide: bool = False


def table(
    resource_type: ResourceType, objects: Iterable[JsonObject], metadata: JsonObject, now: datetime
) -> JsonObject:
    """The objects as a Table.

    Parameters
    ----------
    metadata
        Metadata of the list, such as its resource version.
    now
        Present time, for ages.
    """
    columns = _COLUMNS.get(resource_type.storage, (_NAME, _AGE))
    definitions = [
        {
            "name": column.name,
            "type": "string",
            "format": "name" if column is _NAME or column.name == "Name" else "",
            "description": "",
            "priority": int(column.wide),
        }
        for column in columns
    ]
    rows = [
        {
            "cells": [column.cell(obj, now) for column in columns],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": names.META_API,
                "metadata": obj["metadata"],
            },
        }
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": names.META_API,
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    }


def human_duration(seconds: float) -> str:
    """A duration in at most two units, as ``kubectl`` prints ages."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def _since(text: str | None, now: datetime) -> str:
    return human_duration((now - parse_timestamp(text)).total_seconds()) if text else _UNKNOWN


def _at(*path: str, default: Any = _NONE) -> Callable[[JsonObject, datetime], Any]:
    """Function that returns the content of a field."""

    def cell(obj: JsonObject, _now: datetime) -> Any:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return cell


_NAME = Column("Name", _at("metadata", "name"))
_AGE = Column("Age", lambda obj, now: _since(obj["metadata"].get("creationTimestamp"), now))


def _statuses(pod: JsonObject) -> list[JsonObject]:
    return list(pod.get("status", {}).get("containerStatuses") or ())


def _pod_status(pod: JsonObject, _now: datetime) -> str:
    status = pod.get("status", {})
    reason = str(status.get("reason") or status.get("phase", "Unknown"))
    for entry in reversed(_statuses(pod)):
        state = entry.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            ended = state["terminated"]
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if pod["metadata"].get("deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        return "Terminating"
    gated = any(entry.get("reason") == "SchedulingGated" for entry in status.get("conditions") or ())
    return "SchedulingGated" if gated and status.get("phase") == "Pending" else reason


def _pod_ready(pod: JsonObject, _now: datetime) -> str:
    ready = sum(1 for entry in _statuses(pod) if entry.get("ready"))
    return f"{ready}/{len(pod['spec'].get('containers', ()))}"


def _node_status(node: JsonObject, _now: datetime) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    ready = next((entry["status"] for entry in conditions if entry["type"] == "Ready"), "Unknown")
    words = [{"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: JsonObject, _now: datetime) -> str:
    prefix = names.NODE_ROLE_PREFIX
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))) or _NONE


def _node_address(kind: str) -> Callable[[JsonObject, datetime], str]:
    def cell(node: JsonObject, _now: datetime) -> str:
        addresses = node.get("status", {}).get("addresses") or ()
        return next((str(entry["address"]) for entry in addresses if entry["type"] == kind), _NONE)

    return cell


def _claim_state(claim: JsonObject, _now: datetime) -> str:
    states = []
    if claim["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if "allocation" not in claim.get("status", {}):
        states.append("pending")
    else:
        states.append("allocated")
        if claim["status"].get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


def _event_object(event: JsonObject, _now: datetime) -> str:
    involved = event.get("involvedObject", {})
    return "/".join(filter(None, (involved.get("kind", "").lower(), involved.get("name"))))


def _event_first_seen(event: JsonObject, now: datetime) -> str:
    return _since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_last_seen(event: JsonObject, now: datetime) -> str:
    if "series" in event:
        return _since(event["series"].get("lastObservedTime"), now)
    last = event.get("lastTimestamp")
    return _since(last, now) if last else _event_first_seen(event, now)


def _event_count(event: JsonObject, _now: datetime) -> Any:
    return event["series"].get("count", 0) if "series" in event else event.get("count") or 1


def _event_source(event: JsonObject, _now: datetime) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, instance)))


_COLUMNS: dict[ResourceType, tuple[Column, ...]] = {
    PODS: (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", lambda pod, _now: str(sum(entry.get("restartCount", 0) for entry in _statuses(pod)))),
        _AGE,
        Column("IP", _at("status", "podIP"), wide=True),
        Column("Node", _at("spec", "nodeName"), wide=True),
        Column("Nominated Node", _at("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", lambda _pod, _now: _NONE, wide=True),
    ),
    NODES: (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status", "nodeInfo", "osImage", default=_UNKNOWN), wide=True),
        Column("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default=_UNKNOWN), wide=True),
        Column("Container-Runtime", _at("status", "nodeInfo", "containerRuntimeVersion", default=_UNKNOWN), wide=True),
    ),
    NAMESPACES: (_NAME, Column("Status", _at("status", "phase")), _AGE),
    RESOURCECLAIMS: (_NAME, Column("State", _claim_state), _AGE),
    RESOURCESLICES: (
        _NAME,
        Column("Node", _at("spec", "nodeName", default="<unset>")),
        Column("Driver", _at("spec", "driver")),
        Column("Pool", _at("spec", "pool", "name")),
        _AGE,
    ),
    EVENTS: (
        Column("Last Seen", _event_last_seen),
        Column("Type", _at("type", default="")),
        Column("Reason", _at("reason", default="")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject", "fieldPath", default=""), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", lambda event, _now: event.get("message", "").strip()),
        Column("First Seen", _event_first_seen, wide=True),
        Column("Count", _event_count, wide=True),
        Column("Name", _at("metadata", "name"), wide=True),
    ),
    CONFIGMAPS: (
        _NAME,
        Column("Data", lambda obj, _now: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
        _AGE,
    ),
    PERSISTENTVOLUMECLAIMS: (
        _NAME,
        Column("Status", _at("status", "phase")),
        Column("Volume", _at("spec", "volumeName", default="")),
        Column("Capacity", _at("status", "capacity", "storage", default="")),
        Column("Access Modes", lambda pvc, _now: ",".join(pvc.get("status", {}).get("accessModes") or ())),
        Column("StorageClass", _at("spec", "storageClassName", default="")),
        _AGE,
    ),
}
