"""Known troubles of drivers, by what they publish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.dra.model.devices import Device
from dra_spawner.profiles.drivers import driver_of_class, known_drivers
from dra_spawner.profiles.facts import ClusterFacts

_AMD: Final = "gpu.amd.com"
_DRANET: Final = "dra.net"
_HAMI: Final = "hami-core-gpu.project-hami.io"
_INTEL: Final = "gpu.intel.com"
_NVIDIA: Final = "gpu.nvidia.com"
_SRIOV: Final = "sriovnetwork.k8snetworkplumbingwg.io"
_GPUS: Final = frozenset({_NVIDIA, _AMD})

DRIVER_TROUBLE: Final = DoctorRule(
    "driver-trouble",
    Subject.DEVICES,
    (Severity.WARNING, Severity.INFO),
    "a known trouble of a driver applies",
    "as the finding says",
)

TROUBLE_RULES: Final = rules_of(globals())


@dataclass(frozen=True, slots=True)
class _Seen:
    """A driver, and the devices around it.

    Attributes
    ----------
    devices
        Its devices. There are none where a class exists and nothing is published.
    by_node
        Devices of all drivers, by node and driver.
    has_class
        Whether a DeviceClass is for its devices.
    """

    devices: Sequence[Device]
    by_node: dict[str, dict[str, list[Device]]]
    has_class: bool


@dataclass(frozen=True, slots=True)
class _Trouble:
    driver: str
    applies: Callable[[_Seen], bool]
    sentence: str
    fix: str
    severity: Severity


def _memory_is_zero(seen: _Seen) -> bool:
    capacities = [each.description.capacity.get("memory") for each in seen.devices]
    return bool(capacities) and all(each is not None and not each.value.nano for each in capacities)


def _memory_is_missing(seen: _Seen) -> bool:
    return any(_text(each, "type") == "gpu" and "memory" not in each.description.capacity for each in seen.devices)


def _has_old_names(seen: _Seen) -> bool:
    return any(_text(each, "pciAddr") for each in seen.devices)


def _has_no_common_root(seen: _Seen) -> bool:
    """Whether no card for remote memory is under the root of a GPU, on no node that has both."""
    both = [
        (_roots(on_node[_DRANET]), _roots([*on_node.get(_NVIDIA, ()), *on_node.get(_AMD, ())]))
        for on_node in seen.by_node.values()
        if any(_text(each, "rdma") == "True" for each in on_node.get(_DRANET, ())) and _GPUS & on_node.keys()
    ]
    return bool(both) and all(gpus and cards.isdisjoint(gpus) for cards, gpus in both)


def _roots(devices: Sequence[Device]) -> set[str]:
    return {_text(each, names.PCIE_ROOT) for each in devices} - {""}


def _text(device: Device, name: str) -> str:
    """The value of an attribute, whose name may have the driver's domain; empty without."""
    attributes = device.description.attributes
    found = attributes.get(name) or attributes.get(f"{device.id.driver}/{name}")
    return str(found.value) if found is not None else ""


_TROUBLES: Final = (
    _Trouble(
        _INTEL,
        _memory_is_zero,
        "Intel's driver publishes GPUs with 0 bytes of memory: profiles that ask for memory never fit.",
        "Install Intel's xpumd daemon, or run the driver's plugin in privileged mode: then it can read the memory.",
        Severity.WARNING,
    ),
    _Trouble(
        _AMD,
        _memory_is_zero,
        "AMD's driver publishes GPUs with 0 bytes of memory, as it cannot read them: profiles that ask for memory "
        "never fit.",
        "Look at the log of the driver's pod and at the kernel driver amdgpu on the node.",
        Severity.WARNING,
    ),
    _Trouble(
        _AMD,
        _has_old_names,
        "AMD's driver is older than April 2026, when it renamed attributes: profiles that name pciAddr, cardIndex, "
        "renderIndex or family fit no device after an upgrade.",
        f"Name {names.PCI_BUS_ID} after the upgrade: {where('docs/reference/drivers.md#amd-gpus')}.",
        Severity.INFO,
    ),
    _Trouble(
        _NVIDIA,
        _memory_is_missing,
        "NVIDIA's driver publishes GPUs without memory, as on parts that share it with the processor: profiles with "
        "min_memory never fit there.",
        "Choose these GPUs by product.",
        Severity.INFO,
    ),
    _Trouble(
        _SRIOV,
        lambda seen: not seen.devices,
        "The SR-IOV driver publishes nothing until a SriovResourcePolicy selects devices.",
        f"Create a SriovResourcePolicy: {where('docs/reference/drivers.md')}.",
        Severity.WARNING,
    ),
    _Trouble(
        _HAMI,
        lambda seen: bool(seen.devices),
        "HAMi's driver limits a server to 60 % of the computing units where its claim names no cores.",
        "Name capacity.cores in each profile with HAMi's class.",
        Severity.INFO,
    ),
    _Trouble(
        _NVIDIA,
        lambda seen: any(each.description.allow_multiple_allocations for each in seen.devices),
        "NVIDIA's driver shares GPUs of this cluster by memory or count, and enforces neither.",
        f"Tell users, or use MIG or HAMi: {where('docs/reference/drivers.md#how-firm-a-share-is')}.",
        Severity.INFO,
    ),
    _Trouble(
        _DRANET,
        lambda seen: bool(seen.devices) and not seen.has_class,
        "DRANET publishes network cards and brings no DeviceClass: no profile can request them.",
        'Create a DeviceClass with the selector device.driver == "dra.net".',
        Severity.WARNING,
    ),
    _Trouble(
        _DRANET,
        _has_no_common_root,
        "No network card of DRANET is under the PCIe root of a GPU, as on GB200 and GB300: profiles with "
        f"match_attribute {names.PCIE_ROOT} over both never fit.",
        f"Choose by numa_node: {where('docs/reference/drivers.md#dranet')}.",
        Severity.INFO,
    ),
)


def trouble_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about known troubles of drivers that publish, or that have a class."""
    if facts.slices is None:
        return
    by_driver: dict[str, list[Device]] = defaultdict(list)
    by_node: dict[str, dict[str, list[Device]]] = defaultdict(lambda: defaultdict(list))
    for each in facts.slices:
        by_driver[each.pool_id.driver] += each.devices
        if each.node_name:
            by_node[each.node_name][each.pool_id.driver] += each.devices
    known = ClusterFacts(device_classes={each.name: each for each in facts.classes or ()}, slices=facts.slices)
    found = (driver_of_class(each.name, known) for each in facts.classes or ())
    with_class = {each.name for each in found if each is not None}
    brought = {name: driver.name for driver in known_drivers() for name in driver.class_types}
    installed = {brought[each.name] for each in facts.classes or () if each.name in brought}
    for trouble in _TROUBLES:
        if trouble.driver not in by_driver and trouble.driver not in installed:
            continue
        # Without the classes, one is taken to be there.
        has_class = facts.classes is None or trouble.driver in with_class
        if trouble.applies(_Seen(by_driver.get(trouble.driver, ()), by_node, has_class)):
            yield DRIVER_TROUBLE.finding(
                trouble.sentence, trouble.fix, f"driver {trouble.driver}", severity=trouble.severity
            )
