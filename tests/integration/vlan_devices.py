"""Network cards that carry VLANs, as docs/how-to/vlans.md describes them, and a device of another driver."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest

CNI = "cni.dra.networking.x-k8s.io"
FABRIC = "fabric.example.com"
VLAN_CLASS = "vlan-cni.networking.x-k8s.io"
NODE = "rack"


def vlan_devices() -> list[dict[str, Any]]:
    """Classes, the node, and its slices."""
    return [
        _class(VLAN_CLASS, CNI),
        _class(FABRIC, FABRIC),
        {"apiVersion": "v1", "kind": "Node", **node_manifest(NODE)},
        _slice(CNI, [card("eth1"), card("eth2")]),
        _slice(FABRIC, [{"name": "port-0"}, {"name": "port-1"}]),
    ]


def card(name: str) -> dict[str, Any]:
    """As in the documentation."""
    bandwidth = {"default": "1G", "validRange": {"min": "100M", "max": "10G", "step": "100M"}}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"ifName": {"string": name}},
        "capacity": {
            "bandwidth": {"value": "10G", "requestPolicy": bandwidth},
            "vlans": {"value": "3", "requestPolicy": {"default": "1", "validValues": ["1"]}},
        },
    }


def _class(name: str, driver: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _slice(driver: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    pool = {"name": f"{NODE}-{driver}", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{NODE}-{driver}"},
        "spec": {"driver": driver, "nodeName": NODE, "pool": pool, "devices": devices},
    }
