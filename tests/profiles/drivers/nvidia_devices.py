"""Devices as NVIDIA's and HAMi's drivers publish them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from tests.profiles.drivers.bed import Json, attributes, capacity, shared

_VERSIONS = {"driverVersion": "v580.126.9", "cudaDriverVersion": "v13.0.0"}
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "beds.example.com")

#: MIG profile of an A100 with 40 GB -> id, size in memory slices, where it may start, multiprocessors, memory, engines.
PARTITIONS: Mapping[str, tuple[int, int, tuple[int, ...], str, str, str]] = {
    "1g.5gb": (19, 1, (0, 1, 2, 3, 4, 5, 6), "14", "4864Mi", "1"),
    "2g.10gb": (14, 2, (0, 2, 4), "28", "9856Mi", "2"),
    "3g.20gb": (9, 4, (0, 4), "42", "19968Mi", "3"),
    "4g.20gb": (5, 4, (0,), "56", "19968Mi", "4"),
    "7g.40gb": (0, 8, (0,), "98", "40448Mi", "7"),
}
_WHOLE = {"multiprocessors": "98", "copyEngines": "7", "memory": "40Gi"}


def identity(name: str) -> str:
    return f"GPU-{uuid.uuid5(_NAMESPACE, name)}"


def gpu(
    index: int,
    product: str,
    memory: str,
    *,
    bus: str = "",
    root: str = "",
    architecture: str = "Ampere",
    compute_capability: str = "8.0.0",
    node: str = "",
) -> Json:
    """A whole GPU."""
    return {
        "name": f"gpu-{index}",
        "attributes": attributes(
            type="gpu",
            uuid=identity(f"{node}/{index}"),
            productName=product,
            brand="Nvidia",
            architecture=architecture,
            cudaComputeCapability=f"v{compute_capability}",
            **_VERSIONS,
            pci_bus_id=bus or f"0000:{0x10 + index:02x}:00.0",
            pcie_root=root or f"pci0000:{0x10 + index:02x}",
        ),
        "capacity": capacity(memory=memory),
    }


def shared_gpu(index: int, product: str, memory: str, shares: int | None = None) -> Json:
    """A GPU with consumable shares: by memory, or by a number of them."""
    device = gpu(index, product, memory, architecture="Ada Lovelace", compute_capability="8.9.0")
    return device | memory_shares(memory, shares)


def h100() -> Json:
    """An H100 as releases after 0.4 publish it; its 80 GB are 81559Mi, and its machine has no NUMA node."""
    device = gpu(0, "NVIDIA H100 80GB HBM3", "81559Mi", architecture="Hopper", compute_capability="9.0.0")
    return device | {"attributes": device["attributes"] | attributes(addressingMode="None")}


def memory_shares(memory: str, shares: int | None = None) -> Json:
    """What makes shares of a GPU."""
    policy = {"memory": shared(memory, least="1Mi", step="1Mi")}
    if shares is not None:
        # Memory is not asked for then; nothing of it is taken unless it is.
        policy = {
            "memory": {"value": memory, "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1Mi"}}}
        }
        policy["shares"] = shared(str(shares), default="1", least="1", step="1")
    return {"allowMultipleAllocations": True, "capacity": policy}


def unlimited_gpu(index: int, product: str, memory: str) -> Json:
    """A GPU that any number of claims share."""
    policy = {"default": "0", "validRange": {"min": "0", "step": "1Mi"}}
    device = gpu(index, product, memory)
    return device | {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": memory, "requestPolicy": policy}},
    }


def mig(parent: Json, profile: str, start: int, *, static: bool) -> Json:
    """A slice of a GPU."""
    number, _, _, processors, memory, engines = PARTITIONS[profile]
    name = f"{parent['name']}-mig-{profile.replace('.', '')}-{number}-{start}"
    of_parent = {key: value for key, value in parent["attributes"].items() if key not in ("type", "uuid")}
    own = attributes(type="mig", parentUUID=parent["attributes"]["uuid"]["string"], profile=profile)
    if static:
        own |= attributes(uuid=f"MIG-{uuid.uuid5(_NAMESPACE, name)}")
    sizes = {"multiprocessors": processors, "memory": memory, "copyEngines": engines}
    if static:
        sizes |= {f"memorySlice{number}": "1" for number in range(start, start + PARTITIONS[profile][1])}
    return {"name": name, "attributes": of_parent | own, "capacity": capacity(**sizes)}


def static_mig(parent: Json, *profiles: str) -> list[Json]:
    """A GPU that was cut beforehand; of the GPU itself nothing is left."""
    devices, start = [], 0
    for profile in profiles:
        start = next(position for position in PARTITIONS[profile][2] if position >= start)
        devices.append(mig(parent, profile, start, static=True))
        start += PARTITIONS[profile][1]
    return devices


def dynamic_mig(parents: Iterable[Json]) -> tuple[Json, ...]:
    """GPUs that are cut on demand: a slice of counters, and a slice for each GPU with all that can be cut out."""
    parents = list(parents)
    counter_sets = [
        {"name": f"{parent['name']}-counter-set", "counters": _counters(_WHOLE, range(8))} for parent in parents
    ]
    contents: list[Json] = [{"sharedCounters": counter_sets}]
    for parent in parents:
        counter_set = f"{parent['name']}-counter-set"
        devices = [parent | {"capacity": capacity(**_WHOLE)} | _consumes(counter_set, _WHOLE, range(8))]
        for profile, (_, size, starts, *_rest) in PARTITIONS.items():
            for start in starts:
                device = mig(parent, profile, start, static=False)
                sizes = {name: each["value"] for name, each in device["capacity"].items()}
                devices.append(device | _consumes(counter_set, sizes, range(start, min(start + size, 8))))
        contents.append({"devices": devices})
    return tuple(contents)


def _counters(sizes: Mapping[str, str], slices: range) -> Json:
    dashed = {"".join(f"-{c.lower()}" if c.isupper() else c for c in name): value for name, value in sizes.items()}
    return {name: {"value": value} for name, value in dashed.items()} | {
        f"memory-slice-{number}": {"value": "1"} for number in slices
    }


def _consumes(counter_set: str, sizes: Mapping[str, str], slices: range) -> Json:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": _counters(sizes, slices)}]}


def vfio_gpu(index: int, partition: int) -> Json:
    """A GPU that is passed through."""
    return {
        "name": f"gpu-vfio-{index}",
        "attributes": attributes(
            type="vfio",
            uuid=identity(f"vfio/{index}"),
            deviceID="0x2330",
            vendorID="0x10de",
            productName="NVIDIA H100 80GB HBM3",
            iommuFDEnabled=False,
            numa=0,
            partition2=partition,
            pci_bus_id=f"0000:{0x40 + index:02x}:00.0",
            pcie_root=f"pci0000:{0x40 + index:02x}",
        ),
        "capacity": capacity(addressableMemory="80Gi"),
    }


def hami_gpu(index: int) -> Json:
    """A GPU that HAMi shares."""
    return {
        "name": f"hami-gpu-{index}",
        "allowMultipleAllocations": True,
        "attributes": attributes(
            type="hami-gpu",
            uuid=identity(f"hami/{index}"),
            minor=index,
            productName="NVIDIA L4",
            brand="Nvidia",
            architecture="Ada Lovelace",
            cudaComputeCapability="v8.9.0",
            **_VERSIONS,
            pcieBusID=f"0000:{0x60 + index:02x}:00.0",
            pcie_root=f"pci0000:{0x60 + index:02x}",
        ),
        "capacity": {"cores": shared("100", least="0", step="1"), "memory": shared("24Gi", least="1Mi", step="1Mi")},
    }
