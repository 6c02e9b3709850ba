"""Small objects for tests: a node's GPU that is shared by memory, and pods that use it."""

from __future__ import annotations

from typing import Any

from dra_spawner.common.json_types import JsonObject

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
RESOURCE_API = "resource.k8s.io/v1"


def gpu_class() -> JsonObject:
    """Selects the devices of `gpu_slice`."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> JsonObject:
    """A rule that taints devices of this driver."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": DRIVER, **selector},
            "taint": {"key": "example.com/upkeep", "effect": effect},
        },
    }


def gpu_slice(node: str, *, memory: str = "40Gi", step: str = "5Gi") -> JsonObject:
    """A pool with one GPU, ``gpu-0``, that may be given out in shares of its memory."""
    policy = {"default": step, "validRange": {"min": step, "step": step}}
    device = {
        "name": "gpu-0",
        "allowMultipleAllocations": True,
        "attributes": {"productName": {"string": "Example A100"}},
        "capacity": {"memory": {"value": memory, "requestPolicy": policy}},
    }
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }


def share_template(name: str, memory: str) -> JsonObject:
    """For claims on that much of a GPU's memory."""
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": memory}}}
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def pod(name: str, command: list[str], *, template: str = "", **spec: Any) -> JsonObject:
    """A pod with one container, ``main``, and if `template` is given a claim, ``gpu``, made from it."""
    container: JsonObject = {"name": "main", "image": "example.com/image:1", "command": command}
    if template:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        container["resources"] = {"claims": [{"name": "gpu"}]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
