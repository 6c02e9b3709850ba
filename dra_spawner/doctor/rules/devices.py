"""DeviceClasses, what drivers publish, and known troubles of drivers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorRule, Finding, Severity, Subject
from dra_spawner.doctor.objects import labels_of, name_of
from dra_spawner.dra.devices import Device, PoolId, ResourceSlice
from dra_spawner.json_types import JsonObject
from dra_spawner.profiles.drivers import driver_of_class, known_drivers
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.project_links import where

__all__ = ["DEVICE_RULES", "device_findings"]

_SUBJECT: Final = Subject.DEVICES
_LISTED: Final = 3

NO_DEVICE_CLASSES: Final = DoctorRule(
    "no-device-classes",
    _SUBJECT,
    (Severity.ERROR,),
    "the cluster has no DeviceClass, so no profile can request a device",
    "install a DRA driver",
)
NO_DEVICES: Final = DoctorRule(
    "no-devices",
    _SUBJECT,
    (Severity.WARNING,),
    "no driver publishes a device now",
    "look at the driver's pods; no action where the cluster is scaled to zero",
)
CLASS_WITHOUT_DEVICES: Final = DoctorRule(
    "class-without-devices",
    _SUBJECT,
    (Severity.WARNING,),
    "the driver of a DeviceClass publishes nothing",
    "look at the driver's pods; no action where nodes are added on demand",
)
INCOMPLETE_POOL: Final = DoctorRule(
    "incomplete-pool",
    _SUBJECT,
    (Severity.WARNING,),
    "a driver has not published all slices of a pool, whose devices are not allocated until then",
    "look at the driver's log on this node",
)
TAINTED_DEVICES: Final = DoctorRule(
    "tainted-devices",
    _SUBJECT,
    (Severity.WARNING,),
    "a driver has marked devices, most often as broken",
    "look at the taint and at the device",
)
DEVICE_PLUGIN: Final = DoctorRule(
    "device-plugin-beside-driver",
    _SUBJECT,
    (Severity.ERROR,),
    "a device plugin and a DRA driver give the same devices of a node away",
    "disable the device plugin on nodes with the driver",
)
NODE_WITHOUT_DRIVER: Final = DoctorRule(
    "node-without-driver",
    _SUBJECT,
    (Severity.WARNING,),
    "a node has GPUs by its labels, and no driver publishes there",
    "look at the driver's pods on this node, and at their tolerations",
)
DRIVER_TROUBLE: Final = DoctorRule(
    "driver-trouble",
    _SUBJECT,
    (Severity.WARNING, Severity.INFO),
    "a known trouble of a driver applies",
    "as the finding says",
)

DEVICE_RULES: Final = (
    *(NO_DEVICE_CLASSES, NO_DEVICES, CLASS_WITHOUT_DEVICES, INCOMPLETE_POOL, TAINTED_DEVICES, DEVICE_PLUGIN),
    *(NODE_WITHOUT_DRIVER, DRIVER_TROUBLE),
)

#: Resources of device plugins by the driver of the same devices.
_PLUGIN_RESOURCES: Final = {
    "gpu.nvidia.com": ("nvidia.com/gpu",),
    "hami-core-gpu.project-hami.io": ("nvidia.com/gpu",),
    "gpu.amd.com": ("amd.com/gpu",),
    "gpu.intel.com": ("gpu.intel.com/i915", "gpu.intel.com/xe"),
}
#: Labels of nodes with GPUs, and the drivers of which one should publish there.
_GPU_LABELS: Final = {
    ("nvidia.com/gpu.present", "true"): ("gpu.nvidia.com", "hami-core-gpu.project-hami.io"),
}


def device_findings(facts: DoctorFacts) -> Iterator[Finding]:
    """Findings about classes, slices and drivers."""
    if facts.classes is not None and not facts.classes:
        yield NO_DEVICE_CLASSES.finding(
            "The cluster has no DeviceClass, so no profile can request a device.",
            f"Install the DRA driver of your devices: {where('docs/reference/drivers.md')} lists them.",
        )
    if facts.slices is None:
        return
    if not any(each.devices for each in facts.slices):
        yield NO_DEVICES.finding(
            "No driver publishes a device now.",
            "Look at the pods of the driver: kubectl get pods --all-namespaces | grep dra. "
            "In a cluster that is scaled to zero this needs no action.",
        )
    else:
        yield from _empty_classes(facts, facts.slices)
    yield from _incomplete_pools(facts.slices)
    yield from _tainted(facts.slices)
    yield from _nodes(facts, facts.slices)
    yield from _troubles(facts, facts.slices)


def _empty_classes(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[Finding]:
    publishing = {each.pool_id.driver for each in slices if each.devices}
    known = ClusterFacts(device_classes={each.name: each for each in facts.classes or ()}, slices=tuple(slices))
    empty: dict[str, list[str]] = defaultdict(list)
    for each in facts.classes or ():
        driver = driver_of_class(each.name, known)
        if driver is not None and driver.name not in publishing:
            empty[driver.name].append(each.name)
    for name, classes in sorted(empty.items()):
        yield CLASS_WITHOUT_DEVICES.finding(
            f"The driver {name} publishes no devices, so profiles with {_listed(classes)} wait.",
            "Look at the driver's pods. Where nodes with these devices are added on demand, this needs no action.",
            f"DeviceClass {classes[0]}",
        )


def _incomplete_pools(slices: Sequence[ResourceSlice]) -> Iterator[Finding]:
    pools: dict[PoolId, list[ResourceSlice]] = defaultdict(list)
    for each in slices:
        pools[each.pool_id].append(each)
    for pool_id, found in sorted(pools.items()):
        newest = max(each.generation for each in found)
        present = [each for each in found if each.generation == newest]
        declared = present[0].resource_slice_count
        if len(present) < declared:
            yield INCOMPLETE_POOL.finding(
                f"The driver {pool_id.driver} has published {len(present)} of {declared} slices of its pool, "
                "so the scheduler does not allocate the pool's devices.",
                f"If it stays so for minutes, look at the log of the driver's pod for {pool_id.pool}.",
                f"pool {pool_id}",
            )


def _tainted(slices: Sequence[ResourceSlice]) -> Iterator[Finding]:
    by_taint: dict[tuple[str, str, str], list[Device]] = defaultdict(list)
    for each in slices:
        for device in each.devices:
            for taint in device.taints:
                if str(taint.effect) in ("NoSchedule", "NoExecute"):
                    by_taint[each.pool_id.driver, taint.key, str(taint.effect)].append(device)
    for (driver, key, effect), devices in sorted(by_taint.items(), key=lambda item: item[0]):
        yield TAINTED_DEVICES.finding(
            f"{_counted(len(devices), 'device')} of {driver} {'has' if len(devices) == 1 else 'have'} the taint "
            f"{key} ({effect}), so servers do not get {'it' if len(devices) == 1 else 'them'}: "
            f"{_listed([str(device.id) for device in devices])}.",
            "The taint says what is wrong. Repair the device, or restart the driver's pod when it is repaired.",
            f"device {devices[0].id}",
        )


def _nodes(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[Finding]:
    publishing: dict[str, set[str]] = defaultdict(set)
    for each in slices:
        if each.node_name:
            publishing[each.node_name].add(each.pool_id.driver)
    twice: dict[tuple[str, str], list[str]] = defaultdict(list)
    without: dict[str, list[str]] = defaultdict(list)
    for node in facts.nodes or ():
        name, labels = name_of(node), labels_of(node)
        for driver in sorted(publishing[name]):
            for resource in _PLUGIN_RESOURCES.get(driver, ()):
                if str(((node.get("status") or {}).get("allocatable") or {}).get(resource) or "0") != "0":
                    twice[driver, resource].append(name)
        for (label, value), drivers in _GPU_LABELS.items():
            if labels.get(label) == value and publishing[name].isdisjoint(drivers):
                without[f"{label}={value}"].append(name)
    for (driver, resource), nodes in sorted(twice.items()):
        yield DEVICE_PLUGIN.finding(
            f"A device plugin offers {resource} on {_listed(nodes)}, where the driver {driver} publishes the same "
            "devices: two servers may be given one GPU.",
            "Disable the device plugin on nodes with the driver, for example by a node label that its DaemonSet "
            "requires.",
            f"Node {nodes[0]}",
        )
    for label, nodes in sorted(without.items()):
        yield NODE_WITHOUT_DRIVER.finding(
            f"{_counted(len(nodes), 'node')} with the label {label} "
            f"{'has' if len(nodes) == 1 else 'have'} no devices of a DRA driver: {_listed(nodes)}.",
            f"Look at the driver's pod there: kubectl get pods --all-namespaces --field-selector "
            f"spec.nodeName={nodes[0]}. If there is none, its DaemonSet does not tolerate the node's taint.",
            f"Node {nodes[0]}",
        )


# --- known troubles of drivers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A known trouble.

    Attributes
    ----------
    applies
        Whether it applies, by the driver's devices. There are none where a class exists and nothing is published.
    """

    driver: str
    applies: Callable[[Sequence[Device]], bool]
    sentence: str
    fix: str
    severity: Severity


def _has_no_memory(devices: Sequence[Device]) -> bool:
    capacities = [each.description.capacity.get("memory") for each in devices]
    return bool(devices) and all(each is not None and not each.value.nano for each in capacities)


_TROUBLES: Final = (
    _Trouble(
        "gpu.intel.com",
        _has_no_memory,
        "Intel's driver publishes GPUs with 0 bytes of memory: profiles that ask for memory never fit.",
        "Install Intel's xpumd daemon, or run the driver's plugin in privileged mode: then it can read the memory.",
        Severity.WARNING,
    ),
    _Trouble(
        "sriovnetwork.k8snetworkplumbingwg.io",
        lambda devices: not devices,
        "The SR-IOV driver publishes nothing until a SriovResourcePolicy selects devices.",
        f"Create a SriovResourcePolicy: {where('docs/reference/drivers.md')}.",
        Severity.WARNING,
    ),
    _Trouble(
        "hami-core-gpu.project-hami.io",
        lambda devices: bool(devices),
        "HAMi's driver limits a server to 60 % of the computing units where its claim names no cores.",
        "Name capacity.cores in each profile with HAMi's class.",
        Severity.INFO,
    ),
    _Trouble(
        "gpu.nvidia.com",
        lambda devices: any(each.description.allow_multiple_allocations for each in devices),
        "NVIDIA's driver shares GPUs of this cluster by memory or count, and enforces neither.",
        f"Tell users, or use MIG or HAMi: {where('docs/reference/drivers.md#how-firm-a-share-is')}.",
        Severity.INFO,
    ),
)


def _troubles(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[Finding]:
    by_driver: dict[str, list[Device]] = defaultdict(list)
    for each in slices:
        by_driver[each.pool_id.driver] += each.devices
    classes = {name for driver in known_drivers() for name in driver.class_types}
    installed = {each.name for each in facts.classes or ()} & classes
    for trouble in _TROUBLES:
        is_there = trouble.driver in by_driver or trouble.driver in installed
        if is_there and trouble.applies(by_driver.get(trouble.driver, ())):
            yield DRIVER_TROUBLE.finding(
                trouble.sentence, trouble.fix, f"driver {trouble.driver}", severity=trouble.severity
            )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more


def tainted_gpu_nodes(facts: DoctorFacts) -> Iterator[JsonObject]:
    """Nodes where a driver publishes devices and that have taints."""
    publishing = {each.node_name for each in facts.slices or () if each.node_name and each.devices}
    for node in facts.nodes or ():
        if name_of(node) in publishing and (node.get("spec") or {}).get("taints"):
            yield node
