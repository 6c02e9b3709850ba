"""A pod with a claim, and the slice of its device."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.devices import DeviceId, ResourceSlice
from dra_spawner.spawner.my_devices.published import PublishedDevices

Json = dict[str, Any]
NAME = {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0"}
GPU = DeviceId(**NAME)


def pod(reports: list[Json] | None = None, entry: str = "claim:gpu/gpu") -> Json:
    """A pod whose container has reports about its device."""
    container = {"name": "notebook", "resources": {"claims": [{"name": "gpu"}]}}
    status = {"allocatedResourcesStatus": [{"name": entry, "resources": reports}]} if reports is not None else {}
    return {
        "metadata": {"name": "jupyter-ada", "namespace": "hub", "uid": "u1"},
        "spec": {
            "nodeName": "node-a",
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        },
        "status": {"containerStatuses": [{"name": "notebook", **status}]},
    }


def claim(
    consumed: Json | None = None, *, asked: Json | None = None, uids: tuple[str, ...] = ("u1",), **more: Any
) -> Json:
    """An allocated claim; further fields are of its result."""
    exactly: Json = {"deviceClassName": "gpus"}
    if asked:
        exactly["capacity"] = {"requests": asked}
    result = {"request": "gpu", **NAME, **({"consumedCapacity": consumed} if consumed else {}), **more}
    return {
        "metadata": {"name": "c", "namespace": "hub"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in uids],
        },
    }


def gpu(name: str = GPU.device, *, shared: bool = False, kind: str = "gpu", **more: Any) -> Json:
    """A device as a driver publishes it."""
    attributes = {"type": {"string": kind}, "productName": {"string": "NVIDIA A100"}}
    capacity = {"memory": {"value": "40Gi"}}
    return {"name": name, "allowMultipleAllocations": shared, "attributes": attributes, "capacity": capacity, **more}


def slice_of(*devices: Json, generation: int = 1, count: int = 1, name: str = "s") -> ResourceSlice:
    pool = {"name": GPU.pool, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": GPU.driver, "nodeName": GPU.pool, "pool": pool, "devices": list(devices)}
    return ResourceSlice.from_json({"metadata": {"name": name}, "spec": spec})


def published(*devices: Json) -> PublishedDevices:
    return PublishedDevices([slice_of(*devices)])
