"""Small nodes and devices for tests that count on every one of them."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest

DRIVER = "gpu.example.com"


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


def node_with(name: str, *devices: dict[str, Any]) -> list[dict[str, Any]]:
    """A node and the slice of its devices."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return [
        {"apiVersion": "v1", "kind": "Node", **node_manifest(name)},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{DRIVER}"},
            "spec": {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": list(devices)},
        },
    ]
