"""A node with devices as one driver or another publishes them: the parts of test beds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.profiles.facts import ClusterFacts

Json = dict[str, Any]

RESOURCE_API = "resource.k8s.io/v1"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_BUS_ID = "resource.kubernetes.io/pciBusID"

#: DeviceClass -> its CEL, as the drivers' installations and their documentation have it.
CLASSES: Mapping[str, tuple[str, ...]] = {
    "gpu.nvidia.com": ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",),
    "mig.nvidia.com": ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'",),
    "mig-1g-5gb.gpu.nvidia.com": (
        "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
        " && device.attributes['gpu.nvidia.com'].profile == '1g.5gb'",
    ),
    "vfio.gpu.nvidia.com": ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'",),
    "compute-domain-default-channel.nvidia.com": (
        "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel'"
        " && device.attributes['compute-domain.nvidia.com'].id == 0",
    ),
    "gpu.intel.com": ('device.driver == "gpu.intel.com"',),
    "gpu-vfio.intel.com": ('device.driver == "gpu.intel.com"',),
    "gaudi.intel.com": ('device.driver == "gaudi.intel.com"',),
    "qat.intel.com": ('device.driver == "qat.intel.com"',),
    "gpu.amd.com": ('device.driver == "gpu.amd.com"',),
    "gpu.example.com": ("device.driver == 'gpu.example.com'",),
    "net.example.com": ("device.driver == 'net.example.com'",),
    "cpu.example.com": ("device.driver == 'cpu.example.com'",),
    "dra.cpu": ("device.driver == 'dra.cpu'",),
    "dra.net": ('device.driver == "dra.net"',),
    "dranet": ('device.driver == "dra.net"',),
    "dranet.net": ('device.driver == "dra.net"',),
    "multinic": ('device.driver == "dra.net"',),
    "rdma-net": ('device.driver == "dra.net"', 'device.attributes["dra.net"].rdma == true'),
    "efa.networking.k8s.aws": (
        'device.driver == "dra.net" && device.attributes["dra.net"].pciDevice == \'Elastic Fabric Adapter (EFA)\'',
    ),
    "sriovnetwork.k8snetworkplumbingwg.io": ("device.driver == 'sriovnetwork.k8snetworkplumbingwg.io'",),
    "hami-core-gpu.project-hami.io": (
        'device.driver == "hami-core-gpu.project-hami.io"'
        ' && device.attributes["hami-core-gpu.project-hami.io"].type == "hami-gpu"',
    ),
    "cni.networking.x-k8s.io": ('device.driver == "cni.dra.networking.x-k8s.io"',),
}


@dataclass(frozen=True)
class Bed:
    """One node with its devices.

    Attributes
    ----------
    name
        Of the node, too.
    devices
        Driver -> content of each slice of its pool: ``devices`` or ``sharedCounters``.
    taints
        Of the node.
    """

    name: str
    devices: Mapping[str, tuple[Json, ...]]
    taints: tuple[Json, ...] = ()
    slice_count: Mapping[str, int] = field(default_factory=dict)

    def node(self) -> Json:
        labels = {"kubernetes.io/hostname": self.name}
        return {"apiVersion": "v1", "kind": "Node", **node_manifest(self.name, labels=labels, taints=self.taints)}

    def slices(self) -> list[Json]:
        """Its ResourceSlices."""
        return [
            {
                "apiVersion": RESOURCE_API,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{self.name}-{driver}-{index}"},
                "spec": {
                    "driver": driver,
                    "nodeName": self.name,
                    "pool": {
                        "name": self.name,
                        "generation": 1,
                        "resourceSliceCount": self.slice_count.get(driver, len(contents)),
                    },
                    **content,
                },
            }
            for driver, contents in self.devices.items()
            for index, content in enumerate(contents)
        ]

    def facts(self, **more: Any) -> ClusterFacts:
        """Facts of a check about a cluster of this node alone."""
        return facts_of(self, **more)


def facts_of(*beds: Bed, **more: Any) -> ClusterFacts:
    """Facts of a check about a cluster of these nodes."""
    known = {
        "device_classes": {each["metadata"]["name"]: DeviceClass.from_json(each) for each in device_classes()},
        "slices": tuple(ResourceSlice.from_json(each) for bed in beds for each in bed.slices()),
        "nodes": tuple(bed.node() for bed in beds),
    }
    return ClusterFacts(**{**known, **more})


def device_classes() -> list[Json]:
    """All DeviceClasses."""
    return [
        {
            "apiVersion": RESOURCE_API,
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]},
        }
        for name, expressions in CLASSES.items()
    ]


def attributes(**values: str | int | bool) -> Json:
    """Attributes by name; text such as ``v1.2.3`` is a version. ``pcie_root`` and ``pci_bus_id`` are the standard ones."""
    standard = {"pcie_root": PCIE_ROOT, "pci_bus_id": PCI_BUS_ID}
    return {standard.get(name, name): attribute(value) for name, value in values.items()}


def attribute(value: str | int | bool) -> Json:
    """One attribute's value as the API has it."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if value[:1] == "v" and value[1:2].isdigit():
        return {"version": value[1:]}
    return {"string": value}


def capacity(**values: str) -> Json:
    """Capacities without a policy."""
    return {name: {"value": value} for name, value in values.items()}


def shared(value: str, *, default: str | None = None, least: str, step: str, most: str | None = None) -> Json:
    """A capacity that several claims share, in steps."""
    valid = {"min": least, "step": step, "max": most or value}
    return {"value": value, "requestPolicy": {"default": default or value, "validRange": valid}}
