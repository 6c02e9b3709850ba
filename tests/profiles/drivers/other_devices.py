"""Devices as Intel's, AMD's, DRANET's, the SR-IOV and the example driver publish them."""

from __future__ import annotations

from dra_spawner.names import NUMA_NODE
from tests.profiles.drivers.bed import Json, attribute, attributes, capacity, shared


def intel_gpu(address: str, *, memory: str = "24480Mi", kind: str = "gpu", healthy: bool = True) -> Json:
    """A GPU of the Flex series."""
    dashed = address.replace(":", "-").replace(".", "-")
    device: Json = {
        "name": f"{dashed}-0x56c0",
        "attributes": attributes(
            model="Data Center GPU Flex 170",
            family="Flex",
            driver="i915",
            sriov=kind == "gpu",
            type=kind,
            pciId="0x56c0",
            pciAddress=address,
            pciRoot="pci0000:03",
            health="Healthy" if healthy else "Unhealthy",
            pci_bus_id=address,
            pcie_root="pci0000:03",
        ),
        "capacity": capacity(memory=memory, millicores="1k"),
    }
    if not healthy:
        device["taints"] = [{"key": "gpu.intel.com/HealthIssues-core-temperature", "effect": "NoExecute"}]
    return device


def gaudi(index: int) -> Json:
    """A Gaudi 2; two of them share a root."""
    return {
        "name": f"0000-{0x30 + index:02x}-00-0-0x1020",
        "attributes": attributes(
            model="Gaudi2", serial=f"AN0{index}", healthy=True, pcie_root=f"pci0000:{0x30 + index // 2:02x}"
        ),
    }


def qat(index: int, services: str) -> Json:
    return {"name": f"qatvf-0000-{0x70 + index:02x}-00-1", "attributes": attributes(services=services)}


def cpus(numa_node: int) -> Json:
    """The CPUs of a NUMA node, of which claims take a number."""
    return {
        "name": f"cpudevnuma{numa_node:03}",
        "allowMultipleAllocations": True,
        "attributes": {**attributes(smtEnabled=True, numCPUs=64), NUMA_NODE: attribute(numa_node)},
        "capacity": capacity(**{"dra.cpu/cpu": "64"}),
    }


def amd_gpu(index: int, *, memory: str = "196592Mi") -> Json:
    """A whole MI300X, as the driver publishes it since April 2026."""
    return {
        "name": f"gpu-{index * 8}-{128 + index * 8}",
        "attributes": _amd_attributes(index, "amdgpu", "spx_nps1"),
        "capacity": capacity(memory=memory, computeUnits="304", simdUnits="1216"),
    }


def amd_partition(parent: int, part: int) -> Json:
    """One of the two parts of a MI300X in DPX mode."""
    return {
        "name": f"gpu-{parent * 8 + part}-{128 + parent * 8 + part}",
        "attributes": _amd_attributes(parent, "amdgpu-partition", "dpx_nps1"),
        "capacity": capacity(memory="98296Mi", computeUnits="152", simdUnits="608"),
    }


def _amd_attributes(index: int, kind: str, profile: str) -> Json:
    return attributes(
        type=kind,
        deviceID="0x74a1",
        productName="AMD Instinct MI300X OAM",
        driverVersion="v6.12.12",
        partitionProfile=profile,
        numaNode=index // 4,
        pci_bus_id=f"{index + 2:04x}:00:00.0",
        pcie_root=f"pci{index + 2:04x}:00",
    )


def network_card(
    address: str, *, numa_node: int, rdma: bool, name: str = "", root: str = "", **more: str | int | bool
) -> Json:
    """A network device; without a name, one for RDMA alone."""
    known: dict[str, str | int | bool] = {"pciAddress": address, "numaNode": numa_node, "rdma": rdma, **more}
    if name:
        known |= {"ifName": name, "type": "device", "state": "up", "virtual": False}
    standard = attributes(pci_bus_id=address, **({"pcie_root": root} if root else {}))
    own = {name if "/" in name else f"dra.net/{name}": attribute(value) for name, value in known.items()}
    return {"name": f"pci-{address.replace(':', '-').replace('.', '-')}", "attributes": own | standard}


def virtual_function(index: int) -> Json:
    """One of four VFs of a network card."""
    address = f"0000:08:00.{index + 2}"
    own = attributes(
        pciAddress=address,
        PFName="eth2",
        EswitchMode="legacy",
        vendor="8086",
        deviceID="154c",
        pfDeviceID="158b",
        vfID=index,
        linkType="ethernet",
        rdmaCapable=False,
        pfPciAddress="0000:08:00.0",
        resourceName=f"port{index % 2 + 1}-vfs",
        pci_bus_id=address,
        pcie_root="pci0000:10",
    )
    added = {"k8s.cni.cncf.io/deviceID": address, "k8s.cni.cncf.io/resourceName": f"sriov_nic_{index % 2 + 1}"}
    added_json = {name: attribute(value) for name, value in added.items()} | {"dra.net/numaNode": {"int": 0}}
    return {"name": f"0000-08-00-{index + 2}", "attributes": own | added_json}


def example_gpu(index: int, *, shareable: bool = False, root: str = "") -> Json:
    """A GPU of the example driver."""
    device: Json = {
        "name": f"gpu-{index}",
        "attributes": attributes(
            index=index, uuid=f"gpu-{index:08x}", model="LATEST-GPU-MODEL", driverVersion="v1.0.0"
        ),
        "capacity": capacity(memory="80Gi", compute="100"),
    }
    if root:
        device["attributes"] |= attributes(pcie_root=root)
    return device | _shareable("80Gi", "100") if shareable else device


def _shareable(memory: str, compute: str) -> Json:
    return {
        "allowMultipleAllocations": True,
        "capacity": {
            "memory": shared(memory, default="1Gi", least="1Gi", step="1Gi"),
            "compute": shared(compute, least="1", step="1"),
        },
    }


def example_partitions(gpus: int, parts: int, *, shareable: bool = False) -> tuple[Json, ...]:
    """GPUs that can be taken whole or in equal parts."""
    counters: list[Json] = []
    devices: list[Json] = []
    for index in range(gpus):
        whole = example_gpu(index)
        counter_set = f"gpu-{index}-counters"
        counters.append({"name": counter_set, "counters": capacity(memory="80Gi", compute="100")})
        sizes = {"full": ("80Gi", "100")} | {f"partition-{part}": (f"{80 // parts}Gi", "25") for part in range(parts)}
        for name, (memory, compute) in sizes.items():
            amounts = capacity(memory=memory, compute=compute)
            device = {
                "name": f"gpu-{index}-{name}",
                "attributes": whole["attributes"],
                "capacity": amounts,
                "consumesCounters": [{"counterSet": counter_set, "counters": amounts}],
            }
            devices.append(device | _shareable(memory, compute) if shareable else device)
    return ({"sharedCounters": counters}, {"devices": devices})


def example_card(index: int) -> Json:
    """A network card of the example driver: interfaces and bandwidth."""
    bandwidth = shared("100G", default="1G", least="100M", step="1M")
    return {
        "name": f"nic-{index}",
        "allowMultipleAllocations": True,
        "capacity": {
            "vfs": {"value": "100", "requestPolicy": {"default": "1", "validValues": ["1"]}},
            "ingressBandwidth": bandwidth,
            "egressBandwidth": bandwidth,
        },
    }


def example_cpu(index: int) -> Json:
    """A NUMA node of the example driver; its capacity is published with its domain."""
    return {
        "name": f"numa-{index}",
        "allowMultipleAllocations": True,
        "attributes": attributes(numaNodeID=index),
        "capacity": {"cpu.example.com/cpu": shared("8", default="1", least="1", step="1")},
    }
