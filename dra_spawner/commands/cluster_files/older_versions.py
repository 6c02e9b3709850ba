"""Objects of ``resource.k8s.io/v1beta1`` in the form of v1, which has the same content in other places.

In v1beta1 a device has its attributes in ``basic``, and a request is what ``exactly`` is in v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner.names import RESOURCE_GROUP

__all__ = ["OLD_API", "as_v1"]

OLD_API: Final = f"{RESOURCE_GROUP}/v1beta1"
_EXACTLY: Final = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")


def as_v1(kind: str, obj: Mapping[str, object]) -> Mapping[str, object]:
    """The object of v1; parts that make no sense stay, so that decoding refuses them."""
    spec = obj.get("spec")
    if not isinstance(spec, Mapping):
        return obj
    match kind:
        case "ResourceSlice":
            return {**obj, "spec": _changed(spec, "devices", _device)}
        case "ResourceClaim":
            return {**obj, "spec": _claim_spec(spec)}
        case "ResourceClaimTemplate":
            inner = spec.get("spec")
            return {**obj, "spec": {**spec, "spec": _claim_spec(inner)}} if isinstance(inner, Mapping) else obj
        case _:
            return obj


def _claim_spec(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    devices = spec.get("devices")
    return {**spec, "devices": _changed(devices, "requests", _request)} if isinstance(devices, Mapping) else spec


def _device(device: Mapping[str, Any]) -> Mapping[str, Any]:
    basic = device.get("basic")
    if not isinstance(basic, Mapping):
        return device
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def _request(request: Mapping[str, Any]) -> Mapping[str, Any]:
    exactly = {key: request[key] for key in _EXACTLY if key in request}
    if not exactly:
        return request
    return {**{key: value for key, value in request.items() if key not in _EXACTLY}, "exactly": exactly}


def _changed(parent: Mapping[str, Any], field: str, change: Any) -> Mapping[str, Any]:
    items = parent.get(field)
    if not isinstance(items, list):
        return parent
    return {**parent, field: [change(each) if isinstance(each, Mapping) else each for each in items]}
