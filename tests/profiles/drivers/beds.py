"""Nodes as they are found in the field, with the ResourceSlices that their drivers publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dra_spawner.profiles.facts import ClusterFacts
from tests.profiles.drivers import nvidia_devices as nvidia
from tests.profiles.drivers import other_devices as other
from tests.profiles.drivers.bed import Bed, Json, attributes, facts_of

NVIDIA, DRANET = "gpu.nvidia.com", "dra.net"
_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def _devices(*devices: Json) -> tuple[Json, ...]:
    return ({"devices": list(devices)},)


def _a100(index: int, **more: str) -> Json:
    return nvidia.gpu(index, "NVIDIA A100-SXM4-40GB", "40Gi", **more)


def _a100_efa() -> Bed:
    """AWS p4d: two GPUs and a network card under each root."""
    roots = ("10", "20", "90", "a0")
    gpus = [
        _a100(2 * index + side, bus=f"0000:{root}:{'1c' if side == 0 else '1d'}.0", root=f"pci0000:{root}")
        for index, root in enumerate(roots)
        for side in range(2)
    ]
    cards = [
        other.network_card(
            f"0000:{root}:1b.0",
            numa_node=index // 2,
            rdma=True,
            root=f"pci0000:{root}",
            pciDevice="Elastic Fabric Adapter (EFA)",
            rdmaDevice=f"rdmap{root}s27",
        )
        for index, root in enumerate(roots)
    ]
    cards += [
        other.network_card(
            f"0000:{root}:19.0",
            name=name,
            numa_node=int(root != "20"),
            rdma=False,
            root=f"pci0000:{root}",
            mtu=9001,
            pciDevice="Elastic Network Adapter (ENA)",
        )
        for root, name in (("20", "ens65"), ("90", "ens129"), ("a0", "ens161"))
    ]
    return Bed("a100-efa", {NVIDIA: _devices(*gpus), DRANET: _devices(*cards)}, (_TAINT,))


_GB_ROOTS = ("0008", "0009", "0018", "0019")


def _grace(name: str, product: str, memory: str, capability: str, cards: list[Json]) -> Bed:
    gpus = [
        nvidia.gpu(
            index,
            product,
            memory,
            bus=f"{root}:06:00.0",
            root=f"pci{root}:00",
            architecture="Blackwell",
            compute_capability=capability,
        )
        for index, root in enumerate(_GB_ROOTS)
    ]
    return Bed(name, {NVIDIA: _devices(*gpus), DRANET: _devices(*cards)}, (_TAINT,))


def _gb300() -> Bed:
    """Azure: network cards without a root."""
    cards = [
        other.network_card(
            f"{0x101 + index:04x}:00:00.0",
            numa_node=index // 2,
            rdma=True,
            rdmaDevice=f"mlx5_{index}",
            **{"azure.dra.net/placementGroupId": "placement-1"},
        )
        for index in range(4)
    ]
    return _grace("gb300", "NVIDIA GB300", "284208Mi", "10.3.0", cards)


def _gb200() -> Bed:
    """Oracle: no card is under the root of a GPU."""
    cards = [
        other.network_card(
            f"{root}:03:00.{port}",
            name=f"rdma{2 * index + port}",
            numa_node=index // 2,
            rdma=True,
            root=f"pci{root}:00",
            mtu=9000,
            **{"oke.dra.net/localBlockId": "block-1"},
        )
        for index, root in enumerate(("0000", "0002", "0010", "0012"))
        for port in range(2)
    ]
    return _grace("gb200", "NVIDIA GB200", "189471Mi", "10.0.0", cards)


def _mi300x() -> Bed:
    cards = [
        other.network_card(f"{0x101 + index:04x}:00:00.0", numa_node=index // 4, rdma=True, rdmaDevice=f"mlx5_{index}")
        for index in range(8)
    ]
    return Bed("mi300x", {"gpu.amd.com": _devices(*map(other.amd_gpu, range(8))), DRANET: _devices(*cards)})


def _plain_network() -> Bed:
    """A node with a few interfaces that can be moved into pods."""
    names = {
        "dummy0": "0000:50:00.0",
        "dummy1": "0000:54:00.0",
        "eth1": "0000:51:00.0",
        "eth2": "0000:52:00.0",
        "gpu2rdma0": "0000:53:00.0",
    }
    cards = [
        other.network_card(address, name=name, numa_node=0, rdma="rdma" in name) for name, address in names.items()
    ]
    return Bed("network", {DRANET: _devices(*cards)})


def _h100() -> Bed:
    """Four GPUs and four cards at each NUMA node."""
    gpus = [
        nvidia.gpu(
            index,
            "NVIDIA H100 80GB HBM3",
            "81559Mi",
            bus=f"{bus}:00:00.0",
            root=f"pci{bus}:00",
            architecture="Hopper",
            compute_capability="9.0.0",
        )
        for index, bus in enumerate(("0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"))
    ]
    cards = [
        other.network_card(f"{0x201 + index:04x}:00:00.0", name=f"rdma{index}", numa_node=index // 4, rdma=True)
        for index in range(8)
    ]
    return Bed("h100", {NVIDIA: _devices(*gpus), DRANET: _devices(*cards)}, (_TAINT,))


def _compute_domain() -> Bed:
    devices = [
        {"name": "channel-0", "attributes": attributes(type="channel", id=0)},
        {"name": "daemon-0", "attributes": attributes(type="daemon", id=0)},
    ]
    return Bed("compute-domain", {"compute-domain.nvidia.com": _devices(*devices)})


def _sriov() -> Bed:
    """A card under the root of a GPU of the example driver."""
    gpus = [other.example_gpu(0, root="pci0000:10"), other.example_gpu(1, root="pci0000:20")]
    functions = [other.virtual_function(index) for index in range(4)]
    return Bed(
        "sriov", {"sriovnetwork.k8snetworkplumbingwg.io": _devices(*functions), "gpu.example.com": _devices(*gpus)}
    )


def _broken() -> Bed:
    """A GPU that does not say how much memory it has, and a pool of which half is there."""
    gpu = _a100(0)
    odd = _a100(1)
    del odd["capacity"]
    return Bed(
        "broken",
        {NVIDIA: _devices(gpu, odd), "gpu.example.com": _devices(other.example_gpu(0))},
        (_TAINT,),
        {"gpu.example.com": 2},
    )


def _beds() -> tuple[Bed, ...]:
    static = nvidia.static_mig(_a100(0), "3g.20gb", "2g.10gb", "1g.5gb")
    static += nvidia.static_mig(_a100(1), "1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb")
    example = [other.example_gpu(index) for index in range(8)]
    return (
        _a100_efa(),
        _gb300(),
        _gb200(),
        _h100(),
        _mi300x(),
        _plain_network(),
        _compute_domain(),
        replace(_gb200(), name="gb200-domain", devices={**_gb200().devices, **_compute_domain().devices}),
        _sriov(),
        _broken(),
        Bed("static-mig", {NVIDIA: _devices(*static)}, (_TAINT,)),
        Bed("dynamic-mig", {NVIDIA: nvidia.dynamic_mig([_a100(0), _a100(1)])}, (_TAINT,)),
        Bed("h100-one", {NVIDIA: _devices(nvidia.h100())}),
        Bed("h100-memory-shares", {NVIDIA: _devices(nvidia.h100() | nvidia.memory_shares("81559Mi"))}),
        Bed("h100-counted-shares", {NVIDIA: _devices(nvidia.h100() | nvidia.memory_shares("81559Mi", 4))}),
        Bed("memory-shares", {NVIDIA: _devices(nvidia.shared_gpu(0, "NVIDIA L4", "23034Mi"))}),
        Bed("counted-shares", {NVIDIA: _devices(nvidia.shared_gpu(0, "NVIDIA L4", "23034Mi", 10))}),
        Bed("unlimited-shares", {NVIDIA: _devices(nvidia.unlimited_gpu(0, "Tesla T4", "15Gi"))}),
        Bed("vfio", {NVIDIA: _devices(*(nvidia.vfio_gpu(index, index // 2) for index in range(4)))}, (_TAINT,)),
        Bed("hami", {"hami-core-gpu.project-hami.io": _devices(*map(nvidia.hami_gpu, range(2)))}),
        Bed("mi300x-dpx", {"gpu.amd.com": _devices(*(other.amd_partition(i, p) for i in range(8) for p in range(2)))}),
        Bed("flex", {"gpu.intel.com": _devices(*(other.intel_gpu(f"0000:{bus}:00.0") for bus in ("03", "07")))}),
        Bed(
            "flex-rdma",
            {
                "gpu.intel.com": _devices(other.intel_gpu("0000:03:00.0")),
                DRANET: _devices(
                    other.network_card("0000:09:00.0", name="eth7", numa_node=0, rdma=True, root="pci0000:09"),
                    other.network_card("0000:08:00.0", name="eth8", numa_node=0, rdma=True, root="pci0000:03"),
                ),
            },
        ),
        Bed("cpus", {"dra.cpu": _devices(other.cpus(0), other.cpus(1))}),
        Bed("cni", {"cni.dra.networking.x-k8s.io": _devices({"name": "cni"})}),
        Bed("flex-without-memory", {"gpu.intel.com": _devices(other.intel_gpu("0000:03:00.0", memory="0"))}),
        Bed(
            "flex-functions",
            {"gpu.intel.com": _devices(*(other.intel_gpu(f"0000:03:00.{n}", kind="vf") for n in (1, 2)))},
        ),
        Bed("flex-unhealthy", {"gpu.intel.com": _devices(other.intel_gpu("0000:03:00.0", healthy=False))}),
        Bed("gaudi", {"gaudi.intel.com": _devices(*map(other.gaudi, range(8)))}),
        Bed("qat", {"qat.intel.com": _devices(other.qat(0, "sym;asym"), other.qat(1, "dc"))}),
        Bed("example", {"gpu.example.com": _devices(*example)}),
        Bed("example-partitions", {"gpu.example.com": other.example_partitions(2, 4)}),
        Bed("example-shares", {"gpu.example.com": _devices(other.example_gpu(0, shareable=True))}),
        Bed("example-shared-partitions", {"gpu.example.com": other.example_partitions(1, 4, shareable=True)}),
        Bed(
            "example-net-cpu",
            {
                "net.example.com": _devices(other.example_card(0)),
                "cpu.example.com": _devices(other.example_cpu(0), other.example_cpu(1)),
            },
        ),
    )


#: Name -> node with devices.
BEDS: Mapping[str, Bed] = {bed.name: bed for bed in _beds()}
#: Name -> facts of a check about a cluster with that node alone.
FACTS: Mapping[str, ClusterFacts] = {name: facts_of(bed) for name, bed in BEDS.items()}
