"""Objects for tests of the embedded cluster's controllers, and a clock that they turn themselves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import ScaledClock
from dra_spawner.devcluster.kubelet.node_agent import complete_node, node_manifest

DRIVER = "gpu.example.com"
CLASS = "gpu"
SHARE_CLASS = "share"
NAMESPACE = "default"


class TurnedClock:
    """Stands still until `turn`."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._turned = asyncio.Event()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        end = self._now + timedelta(seconds=seconds)
        while self._now < end:
            await self._turned.wait()

    def turn(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._turned.set()
        self._turned = asyncio.Event()


def node(name: str, labels: dict[str, str] | None = None, **capacity: str) -> JsonObject:
    manifest = node_manifest(name, capacity={"cpu": "4", "memory": "8Gi", **capacity}, labels=labels)
    return complete_node(manifest, ScaledClock())


def device_class(name: str = CLASS, expression: str = f'device.driver == "{DRIVER}"') -> JsonObject:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def whole(name: str) -> JsonObject:
    return {"name": name}


def shareable(name: str) -> JsonObject:
    """40 GiB in steps of 5 GiB."""
    policy = {"default": "40Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}}
    capacity = {"memory": {"value": "40Gi", "requestPolicy": policy}}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity}


def gpu_slice(node_name: str, *devices: JsonObject) -> JsonObject:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node_name, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": f"{node_name}-gpus"}, "spec": spec}


def claim_spec(memory: str = "", device_class_name: str = CLASS, **request: Any) -> JsonObject:
    exactly: JsonObject = {"deviceClassName": device_class_name, **request}
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim(name: str, memory: str = "", **request: Any) -> JsonObject:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": claim_spec(memory, **request)}


def template(name: str, memory: str = "", metadata: JsonObject | None = None, **request: Any) -> JsonObject:
    spec: JsonObject = {"spec": claim_spec(memory, **request)}
    if metadata:
        spec["metadata"] = metadata
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def pod(name: str, *, template: str = "", claim: str = "", cpu: str = "", **spec: Any) -> JsonObject:
    """A pod with one container, and if asked for a claim ``gpu``, from a template or a shared one."""
    container: JsonObject = {"name": "main", "image": "example.com/image:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if template:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"containers": [container], **spec}}
