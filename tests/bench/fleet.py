"""A fleet of alike nodes, most of its devices in use."""

from __future__ import annotations

import random
import uuid
from typing import Any

__all__ = ["DEVICES_A_NODE", "DRIVER", "Fleet", "device_class", "held"]

Json = dict[str, Any]

DRIVER = "gpu.example.com"
DEVICES_A_NODE = 8
_GI_A_DEVICE = 80
_API = "resource.k8s.io/v1"


def device_class() -> Json:
    """The class of all devices of the driver."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {"apiVersion": _API, "kind": "DeviceClass", "metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}


def held(node: str, device: str, pod: Json, memory: str = "", share: int = 1) -> Json:
    """Status of a claim that a pod uses: a device of the node, or with ``memory`` a share of it."""
    result: Json = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    if memory:
        result |= {"shareID": str(uuid.UUID(int=share)), "consumedCapacity": {"memory": memory}}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    return {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": pod["name"], "uid": pod["uid"]}]}


class Fleet:
    """API objects of a cluster whose devices look alike but for what each has of its own: index, PCI root, UUID.

    Parameters
    ----------
    nodes
        How many; eight devices each.
    shared
        Devices are given out in shares of 5Gi and more of 80Gi, not as a whole.
    busy
        Part of the devices, or of their memory, that existing claims hold.
    """

    def __init__(self, nodes: int, *, shared: bool, busy: float = 0.0, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._shared = shared
        names = [f"node-{index:04}" for index in range(nodes)]
        self.nodes: list[Json] = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
            for name in names
        ]
        self.slices: list[Json] = [self.slice_of(name) for name in names]
        self.classes: list[Json] = [device_class()]
        self.existing: list[Json] = [
            claim
            for name in names
            for index in range(DEVICES_A_NODE)
            for claim in (self._shares(name, index, busy) if shared else self._holder(name, index, busy))
        ]

    def claim(self, name: str = "wanted", gibibytes: int = 15) -> Json:
        """A claim for one device, or for a share of so much memory of one."""
        own = f"device.attributes['{DRIVER}']"
        selector = {"cel": {"expression": f"has({own}.productName) && {own}.productName == 'A100 80GB'"}}
        exactly: Json = {"deviceClassName": DRIVER, "selectors": [selector]}
        if self._shared:
            exactly["capacity"] = {"requests": {"memory": f"{gibibytes}Gi"}}
        return self._claim(name, {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})

    def scenario(self, repeat: int) -> Json:
        """Input of the Go allocator: place one pod with one claim so many times."""
        features = ["AdminAccess", "ConsumableCapacity", "DeviceBindingAndStatus", "DeviceTaints"]
        features += ["PartitionableDevices", "PrioritizedList"]
        return {
            "name": "fleet",
            "features": dict.fromkeys(features, True),
            "nodes": self.nodes,
            "slices": self.slices,
            "classes": self.classes,
            "existing": self.existing,
            "claims": [self.claim()],
            "repeat": repeat,
        }

    def slice_of(self, node: str) -> Json:
        spec: Json = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [self._device(index) for index in range(DEVICES_A_NODE)],
        }
        return {"apiVersion": _API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpu"}, "spec": spec}

    def _device(self, index: int) -> Json:
        memory: Json = {"value": f"{_GI_A_DEVICE}Gi"}
        device: Json = {
            "name": f"gpu-{index}",
            "attributes": {
                "productName": {"string": "A100 80GB"},
                "architecture": {"string": "Ampere"},
                "driverVersion": {"version": "550.54.15"},
                "index": {"int": index},
                "uuid": {"string": f"GPU-{uuid.UUID(int=self._random.getrandbits(128))}"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index:02x}"},
            },
            "capacity": {"memory": memory},
        }
        if self._shared:
            device["allowMultipleAllocations"] = True
            memory["requestPolicy"] = {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}
        return device

    def _holder(self, node: str, index: int, busy: float) -> list[Json]:
        if self._random.random() >= busy:
            return []
        return [self._allocated(node, index, {})]

    def _shares(self, node: str, index: int, busy: float) -> list[Json]:
        """Shares of a random size until about the wanted part of the device is in use."""
        claims = []
        wanted = self._random.triangular(2 * busy - 1, 1, busy) * _GI_A_DEVICE if busy else 0
        used = 0
        while used + 5 <= wanted:
            size = min(self._random.choice((5, 10, 20, 40)), int(wanted - used) // 5 * 5)
            used += size
            share_id = str(uuid.UUID(int=self._random.getrandbits(128)))
            consumed = {"memory": f"{size}Gi"}
            claims.append(self._allocated(node, index, {"shareID": share_id, "consumedCapacity": consumed}))
        return claims

    def _allocated(self, node: str, index: int, more: Json) -> Json:
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{index}", **more}
        claim = self._claim(f"used-{node}-{index}-{self._random.getrandbits(40):010x}", {})
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        return claim

    def _claim(self, name: str, spec: Json) -> Json:
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": _API, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
