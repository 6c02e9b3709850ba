"""The demo's four nodes with their devices, and the classes by which claims ask for them.

=====================  ==================================================================  =======================
node                   devices                                                             class
=====================  ==================================================================  =======================
``shared-gpus``        2 GPUs of 40 GiB that several claims share by memory, in 5 GiB      ``gpu-share.example.com``
                       steps
``partitioned-gpus``   2 GPUs of 40 GiB that can be cut (1g.5gb, 2g.10gb, 3g.20gb) or      ``mig.example.com``,
                       taken whole; shared counters limit the combinations                 ``gpu.example.com``
``whole-gpus``         4 GPUs of 80 GiB, one claim each                                    ``gpu.example.com``
``vlan-nics``          2 network cards; a claim takes bandwidth and VLAN interfaces        ``vlan-nic.example.com``
=====================  ==================================================================  =======================

The drivers are the demo's own. Devices, attributes, counters and capacities have the names that NVIDIA's driver uses,
and the partitions have the sizes of an A100 with 40 GB. So claims for the demo also work with NVIDIA's driver, after a
change of the driver's name.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.dra.preparation import PreparedFor

GPU_DRIVER = "gpu.example.com"
NIC_DRIVER = "nic.example.com"
#: The cards are no hardware, and each pod that names a claim is given them. A real driver of cards serves one pod.
DRIVERS_PREPARE_FOR = {NIC_DRIVER: PreparedFor.CLAIM}
GPU_SHARE_CLASS = "gpu-share.example.com"
MIG_CLASS = "mig.example.com"
GPU_CLASS = "gpu.example.com"
VLAN_NIC_CLASS = "vlan-nic.example.com"

SHARED_NODE = "shared-gpus"
PARTITIONED_NODE = "partitioned-gpus"
WHOLE_NODE = "whole-gpus"
NIC_NODE = "vlan-nics"

_MEMORY_SLICES = 8
_UUID_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "example.com")


@dataclass(frozen=True, slots=True)
class _Partition:
    """A MIG profile, as ``nvidia-smi mig -lgip`` lists it for an A100 with 40 GB."""

    profile: str
    profile_id: int
    starts: tuple[int, ...]
    """Numbers of the memory slices at which an instance may begin."""
    size: int
    """Number of memory slices that it takes."""
    capacity: Mapping[str, str]


_WHOLE = {
    "multiprocessors": "98",
    "copyEngines": "7",
    "decoders": "5",
    "encoders": "0",
    "jpegEngines": "1",
    "ofaEngines": "1",
    "memory": "40Gi",
}
_PARTITIONS = (
    _Partition(
        profile="1g.5gb",
        profile_id=19,
        starts=(0, 1, 2, 3, 4, 5, 6),
        size=1,
        capacity=_WHOLE
        | {"multiprocessors": "14", "copyEngines": "1", "decoders": "0", "memory": "4864Mi"}
        | {"jpegEngines": "0", "ofaEngines": "0"},
    ),
    _Partition(
        profile="2g.10gb",
        profile_id=14,
        starts=(0, 2, 4),
        size=2,
        capacity=_WHOLE
        | {"multiprocessors": "28", "copyEngines": "2", "decoders": "1", "memory": "9856Mi"}
        | {"jpegEngines": "0", "ofaEngines": "0"},
    ),
    _Partition(
        profile="3g.20gb",
        profile_id=9,
        starts=(0, 4),
        size=4,
        capacity=_WHOLE
        | {"multiprocessors": "42", "copyEngines": "3", "decoders": "2", "memory": "19968Mi"}
        | {"jpegEngines": "0", "ofaEngines": "0"},
    ),
)


def example_objects() -> list[JsonObject]:
    """All objects of the example: DeviceClasses, Nodes and ResourceSlices, in the order of their creation."""
    return [*device_classes(), *example_nodes(), *resource_slices()]


def device_classes() -> list[JsonObject]:
    """The DeviceClasses; their selectors do not fail on devices of other drivers."""
    kind = f'device.attributes["{GPU_DRIVER}"].type'
    selectors = {
        GPU_SHARE_CLASS: f'device.driver == "{GPU_DRIVER}" && device.allowMultipleAllocations',
        MIG_CLASS: f'device.driver == "{GPU_DRIVER}" && {kind} == "mig"',
        GPU_CLASS: f'device.driver == "{GPU_DRIVER}" && {kind} == "gpu" && !device.allowMultipleAllocations',
        VLAN_NIC_CLASS: f'device.driver == "{NIC_DRIVER}" && device.attributes["{NIC_DRIVER}"].vlanTrunk',
    }
    return [
        {
            "apiVersion": names.RESOURCE_API,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        for name, expression in selectors.items()
    ]


def example_nodes() -> list[JsonObject]:
    """The Nodes, as a kubelet registers them."""
    capacity = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    nodes = []
    for name in (SHARED_NODE, PARTITIONED_NODE, WHOLE_NODE, NIC_NODE):
        labels = {names.HOSTNAME: name, names.OS: "linux", names.ARCH: "amd64"}
        labels[names.INSTANCE_TYPE] = f"example.{name}"
        node = node_manifest(name, capacity=capacity, labels=labels)
        node["status"]["allocatable"] = dict(capacity)
        nodes.append({"apiVersion": "v1", "kind": "Node", **node})
    return nodes


def resource_slices() -> list[JsonObject]:
    """The ResourceSlices: a pool for each node, with the node's name."""
    counters = [_counter_set(index) for index in range(2)]
    parts = [_partitionable(index) for index in range(2)]
    return [
        *_pool(GPU_DRIVER, SHARED_NODE, {"devices": [_shared_gpu(index) for index in range(2)]}),
        *_pool(GPU_DRIVER, PARTITIONED_NODE, {"sharedCounters": counters}, *({"devices": part} for part in parts)),
        *_pool(GPU_DRIVER, WHOLE_NODE, {"devices": [_whole_gpu(index) for index in range(4)]}),
        *_pool(NIC_DRIVER, NIC_NODE, {"devices": [_nic(index) for index in range(2)]}),
    ]


def _pool(driver: str, node: str, *contents: JsonObject) -> list[JsonObject]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(contents)}
    return [
        {
            "apiVersion": names.RESOURCE_API,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{index}"},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, **content},
        }
        for index, content in enumerate(contents)
    ]


def _gpu_attributes(node: str, index: int, product: str, compute_capability: str) -> JsonObject:
    return {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{uuid.uuid5(_UUID_NAMESPACE, f'{node}/{index}')}"},
        "productName": {"string": product},
        "brand": {"string": "Example"},
        "architecture": {"string": "Ampere" if compute_capability.startswith("8") else "Hopper"},
        "cudaComputeCapability": {"version": compute_capability},
        "driverVersion": {"version": "580.126.9"},
        names.PCIE_ROOT: {"string": f"pci0000:{0x10 + index:02x}"},
    }


def _capacities(values: Mapping[str, str]) -> JsonObject:
    return {name: {"value": value} for name, value in values.items()}


def _shared_gpu(index: int) -> JsonObject:
    # A request without an amount gets the whole device, so that shares are explicit.
    policy = {"default": "40Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}}
    return {
        "name": f"gpu-{index}",
        "allowMultipleAllocations": True,
        "attributes": _gpu_attributes(SHARED_NODE, index, "Example A100 40GB", "8.0.0"),
        "capacity": {"memory": {"value": "40Gi", "requestPolicy": policy}},
    }


def _whole_gpu(index: int) -> JsonObject:
    return {
        "name": f"gpu-{index}",
        "attributes": _gpu_attributes(WHOLE_NODE, index, "Example H100 80GB", "9.0.0"),
        "capacity": _capacities({"memory": "80Gi", "multiprocessors": "132"}),
    }


def _counters(capacity: Mapping[str, str], memory_slices: range) -> JsonObject:
    """The counters that a GPU of this capacity consumes: its engines, and the memory slices that it uses."""
    dashed = {_dashed(name): {"value": value} for name, value in capacity.items()}
    return dashed | {f"memory-slice-{number}": {"value": "1"} for number in memory_slices}


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def _counter_set(index: int) -> JsonObject:
    return {"name": f"gpu-{index}-counter-set", "counters": _counters(_WHOLE, range(_MEMORY_SLICES))}


def _partitionable(index: int) -> list[JsonObject]:
    """A GPU as a whole, and each partition at each of its start positions."""
    whole = _gpu_attributes(PARTITIONED_NODE, index, "Example A100 40GB", "8.0.0")
    of_parent = {name: value for name, value in whole.items() if name not in ("type", "uuid")}
    counter_set = f"gpu-{index}-counter-set"
    devices: list[JsonObject] = [
        {
            "name": f"gpu-{index}",
            "attributes": whole,
            "capacity": _capacities(_WHOLE),
            "consumesCounters": [
                {"counterSet": counter_set, "counters": _counters(_WHOLE, range(_MEMORY_SLICES))},
            ],
        }
    ]
    for partition in _PARTITIONS:
        attributes = of_parent | {
            "type": {"string": "mig"},
            "parentUUID": whole["uuid"],
            "profile": {"string": partition.profile},
        }
        short = partition.profile.replace(".", "")
        devices += [
            {
                "name": f"gpu-{index}-mig-{short}-{partition.profile_id}-{start}",
                "attributes": attributes,
                "capacity": _capacities(partition.capacity),
                "consumesCounters": [
                    {
                        "counterSet": counter_set,
                        "counters": _counters(partition.capacity, range(start, start + partition.size)),
                    },
                ],
            }
            for start in partition.starts
        ]
    return devices


def _nic(index: int) -> JsonObject:
    bandwidth = {"default": "1G", "validRange": {"min": "100M", "max": "10G", "step": "100M"}}
    return {
        "name": f"nic-{index}",
        "allowMultipleAllocations": True,
        "attributes": {
            "type": {"string": "nic"},
            "ifName": {"string": f"eth{index + 1}"},
            "mtu": {"int": 9000},
            "numaNode": {"int": index},
            "vlanTrunk": {"bool": True},
            names.PCIE_ROOT: {"string": f"pci0000:{0x10 + index:02x}"},
        },
        "capacity": {
            "bandwidth": {"value": "10G", "requestPolicy": bandwidth},
            # A server that needs two interfaces claims two.
            "vlans": {"value": "64", "requestPolicy": {"default": "1", "validValues": ["1"]}},
        },
    }
