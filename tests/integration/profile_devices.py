"""The devices of the examples in docs/reference/profiles.md: one node that has some of each kind."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest

GPU_DRIVER = "gpu.example.com"
NIC_DRIVER = "nic.example.com"
NODE = "workstation"
RESOURCE_API = "resource.k8s.io/v1"


def example_devices() -> list[dict[str, Any]]:
    """Classes, the node, and its slices."""
    kind = f'device.attributes["{GPU_DRIVER}"].type'
    expressions = {
        "gpu.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "gpu"',
        "mig.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "mig"',
        "gpu-share.example.com": f'device.driver == "{GPU_DRIVER}" && {kind} == "shared-gpu"',
        "vlan-nic.example.com": f'device.driver == "{NIC_DRIVER}"',
    }
    return [
        *(_class(name, expression) for name, expression in expressions.items()),
        {"apiVersion": "v1", "kind": "Node", **node_manifest(NODE)},
        _slice(GPU_DRIVER, _gpus()),
        _slice(NIC_DRIVER, _nics()),
    ]


def imex_template() -> dict[str, Any]:
    """The template that the documentation's example names."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "imex-channel"},
        "spec": {"spec": {"devices": {"requests": [_request("channel", "mig.example.com")]}}},
    }


def team_claim() -> dict[str, Any]:
    """The standing claim that the documentation's example names."""
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceClaim",
        "metadata": {"name": "team-gpu"},
        "spec": {"devices": {"requests": [_request("gpu", "gpu.example.com")]}},
    }


def _request(name: str, device_class: str) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class}}


def _class(name: str, expression: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": RESOURCE_API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _slice(driver: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    pool = {"name": f"{NODE}-{driver}", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": RESOURCE_API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{NODE}-{driver}"},
        "spec": {"driver": driver, "nodeName": NODE, "pool": pool, "devices": devices},
    }


def _gpus() -> list[dict[str, Any]]:
    def gpu(name: str, product: str, memory: str, root: int, **more: Any) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "type": {"string": "gpu"},
            "productName": {"string": product},
            "cudaComputeCapability": {"version": "9.0.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{root:02x}"},
        }
        return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}

    large = [gpu(f"gpu-{number}", "Example H100 80GB", "80Gi", 0x10 + number) for number in range(2)]
    for number, device in enumerate(large):
        device["attributes"] |= {
            "numaNode": {"int": number},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{0x1B + number:02x}:00.0"},
        }
    taint = {"key": "example.com/maintenance", "value": "fan", "effect": "NoSchedule"}
    worn = gpu("worn-gpu", "Example L4", "24Gi", 0x30, taints=[taint])
    shared = gpu("shared-gpu", "Example A100 40GB", "40Gi", 0x31, allowMultipleAllocations=True)
    shared["attributes"]["type"]["string"] = "shared-gpu"
    policy = {"default": "40Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}
    shared["capacity"]["memory"]["requestPolicy"] = policy
    return [*large, worn, shared, *(_mig(parent, number) for parent in range(2) for number in range(2))]


def _mig(parent: int, number: int) -> dict[str, Any]:
    attributes = {"type": "mig", "profile": "1g.5gb", "parentUUID": f"GPU-{parent}"}
    return {
        "name": f"mig-{parent}-{number}",
        "attributes": {name: {"string": value} for name, value in attributes.items()},
        "capacity": {"memory": {"value": "4864Mi"}},
    }


def _nics() -> list[dict[str, Any]]:
    policy = {"default": "1G", "validRange": {"min": "100M", "max": "10G", "step": "100M"}}
    return [
        {
            "name": f"nic-{number}",
            "allowMultipleAllocations": True,
            # The one with RDMA is at the root of the second GPU: only a match of roots brings them together.
            "attributes": {
                "rdma": {"bool": number == 1},
                "numaNode": {"int": number},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x10 + number:02x}"},
            },
            "capacity": {"bandwidth": {"value": "10G", "requestPolicy": policy}},
        }
        for number in range(2)
    ]
