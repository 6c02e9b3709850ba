"""Claims that the API server accepts and whose devices take for ever to search for, on a node with a dozen devices."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]

DEVICE_CLASS: Final = "gpu.example.com"
MAX_REQUESTS: Final = 32
"""Of a claim; so many devices, too."""
_IMPOSSIBLE: Final = [{"cel": {"expression": "device.driver == 'nobody'"}}]


def _devices(count: int = 1, **more: Any) -> Json:
    return {"deviceClassName": DEVICE_CLASS, "allocationMode": "ExactCount", "count": count, **more}


def _requests(number: int, devices: int = 1) -> list[Json]:
    return [{"name": f"r{each}", "exactly": _devices(devices)} for each in range(number)]


_LAST: Final = {"name": "last", "exactly": _devices(selectors=_IMPOSSIBLE)}


def _claim(requests: list[Json], *constraints: Json) -> Json:
    return {"devices": {"requests": requests, "constraints": list(constraints)}}


def last_impossible(requests: int = 20) -> Json:
    """All ways to choose the first ones are tried before it is clear that there is none for the last one."""
    found = _requests(requests)
    found[8]["exactly"]["selectors"] = _IMPOSSIBLE
    return _claim(found)


def many_counts() -> Json:
    """A few devices at a time: combinations."""
    return _claim([*_requests(5, 2), _LAST])


def unmet_match() -> Json:
    """The last two would have to be of one uuid."""
    return _claim(_requests(9), {"requests": ["r7", "r8"], "matchAttribute": f"{DEVICE_CLASS}/uuid"})


def unmet_distinct() -> Json:
    """The last three would have to differ in an attribute that has two values."""
    return _claim(_requests(9), {"requests": ["r6", "r7", "r8"], "distinctAttribute": f"{DEVICE_CLASS}/side"})


def alternatives() -> Json:
    """Eight alternatives for each request."""
    found: list[Json] = [
        {
            "name": f"r{number}",
            "firstAvailable": [{"name": f"a{alternative}", **_devices(1 + alternative)} for alternative in range(8)],
        }
        for number in range(MAX_REQUESTS - 1)
    ]
    return _claim([*found, _LAST])


def counted() -> Json:
    """Partitions that share counters, one of them too many."""
    return _claim(_requests(10))


KINDS: Final[dict[str, Callable[[], Json]]] = {
    "last impossible": last_impossible,
    "many counts": many_counts,
    "unmet match": unmet_match,
    "unmet distinct": unmet_distinct,
    "alternatives": alternatives,
    "counted": counted,
}


def variant(kind: str, number: int) -> Json:
    """A claim of a kind that is no other's: its requests have names of their own."""
    text = json.dumps(KINDS[kind]())
    found: Json = json.loads(re.sub(r'"r(\d+)"', rf'"own-{number}-r\1"', text))
    return found


def devices(kind: str, count: int = 12) -> list[Json]:
    """Devices of a node."""
    found: list[Json] = []
    for number in range(count):
        attributes = {"uuid": {"string": f"u{number}"}, "side": {"int": number % 2}}
        device: Json = {"name": f"gpu-{number}", "attributes": attributes}
        if kind == "counted":
            counters = {"slots": {"value": "1"}}
            device["consumesCounters"] = [{"counterSet": "board", "counters": counters}]
        found.append(device)
    return found


def slices(node: str, kind: str, count: int = 12) -> list[Json]:
    """Slices that a driver publishes for a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2 if kind == "counted" else 1}
    api = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    common = {"driver": DEVICE_CLASS, "nodeName": node, "pool": pool}
    found = [{**api, "metadata": {"name": f"{node}-gpus"}, "spec": {**common, "devices": devices(kind, count)}}]
    if kind == "counted":
        sets = [{"name": "board", "counters": {"slots": {"value": "9"}}}]
        found.append({**api, "metadata": {"name": f"{node}-board"}, "spec": {**common, "sharedCounters": sets}})
    return found
