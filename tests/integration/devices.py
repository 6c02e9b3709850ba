"""Small nodes and devices for tests that count on every one of them, and the priority of placeholders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest

DRIVER = "gpu.example.com"
PRIORITY_CLASS = "dra-spawner-placeholder"
"""As it is shipped."""


def device_class(name: str, expression: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}" && ({expression})'}}]},
    }


def classes() -> list[dict[str, Any]]:
    """The classes that the shipped configuration's profiles name."""
    return [
        device_class("gpu-share.example.com", "device.allowMultipleAllocations"),
        device_class("gpu.example.com", "!device.allowMultipleAllocations"),
    ]


def shareable(name: str) -> dict[str, Any]:
    """A GPU of 40 GiB, shared in steps of 5 GiB."""
    policy = {"default": "40Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "40Gi"}}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": "Example 40"}},
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}},
    }


def whole(name: str) -> dict[str, Any]:
    """A GPU that nobody shares."""
    return {
        "name": name,
        "attributes": {"model": {"string": "Example 80"}},
        "capacity": {"memory": {"value": "80Gi"}},
    }


def priority_class(name: str = PRIORITY_CLASS, value: int = -10, **more: Any) -> dict[str, Any]:
    """The priority of placeholders, or another one."""
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value, **more}


def image_list(images: Iterable[str]) -> list[dict[str, Any]]:
    """Images in a node's status."""
    return [{"names": [image], "sizeBytes": 1} for image in images]


def node_with(name: str, *devices: dict[str, Any], images: Iterable[str] = ()) -> list[dict[str, Any]]:
    """A node and the slice of its devices, if it has any."""
    node = {"apiVersion": "v1", "kind": "Node", **node_manifest(name)}
    if images:
        node["status"]["images"] = image_list(images)
    if not devices:
        return [node]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return [
        node,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{DRIVER}"},
            "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(devices)},
        },
    ]
