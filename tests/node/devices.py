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
    "GPU_CLASS",
    "GPU_DRIVER",
    "GPU_SHARE_CLASS",
    "MIG_CLASS",
    "NIC_DRIVER",
    "PARTITIONED_NODE",
    "SHARED_NODE",
    "VLAN_NIC_CLASS",
    "WHOLE_NODE",
    "Pools",
    "device_classes",
    "example_pools",
]

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
