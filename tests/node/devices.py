"""Devices that drivers publish on a real node: all devices and classes of the demo, on one node."""

from __future__ import annotations

from typing import Any

from dra_spawner.devcluster.demo.example_nodes import (
    GPU_CLASS,
    GPU_DRIVER,
    GPU_SHARE_CLASS,
    MIG_CLASS,
    NIC_DRIVER,
    PARTITIONED_NODE,
    SHARED_NODE,
    VLAN_NIC_CLASS,
    WHOLE_NODE,
    device_classes,
    resource_slices,
)

__all__ = [
    "CPU_DRIVER",
    "GPU_CLASS",
    "GPU_DRIVER",
    "GPU_SHARE_CLASS",
    "MIG_CLASS",
    "NIC_DRIVER",
    "PARTITIONED_NODE",
    "POD_NIC_DRIVER",
    "PREPARES_FOR",
    "SHARED_NODE",
    "VLAN_NIC_CLASS",
    "WHOLE_NODE",
    "Pools",
    "bound_pools",
    "device_classes",
    "example_pools",
]

#: Drivers with the names, and the ways to prepare, of two real ones: for one pod, and for one container.
POD_NIC_DRIVER = "dra.net"
CPU_DRIVER = "dra.cpu"
PREPARES_FOR = {POD_NIC_DRIVER: "pod", CPU_DRIVER: "container"}

#: Slices by the name of their pool.
Pools = dict[str, list[dict[str, Any]]]


def example_pools(driver: str, node: str) -> Pools:
    """The demo's pools of a driver, such as ``<node>-shared-gpus``."""
    pools: Pools = {}
    for each in resource_slices():
        spec = each["spec"]
        if spec["driver"] == driver:
            content = {key: spec[key] for key in ("devices", "sharedCounters") if key in spec}
            pools.setdefault(f"{node}-{spec['pool']['name']}", []).append(content)
    return pools


def bound_pools(node: str) -> dict[str, Pools]:
    """By driver: two network cards, of which each is moved into one pod; and CPUs, of which each claim takes some."""
    cards = [{"name": f"nic-{index}", "attributes": {"ifName": {"string": f"eth{index}"}}} for index in range(2)]
    cpus = {"name": "cpus", "allowMultipleAllocations": True, "capacity": {"dra.cpu/cpu": {"value": "64"}}}
    return {
        POD_NIC_DRIVER: {f"{node}-cards": [{"devices": cards}]},
        CPU_DRIVER: {f"{node}-cpus": [{"devices": [cpus]}]},
    }
