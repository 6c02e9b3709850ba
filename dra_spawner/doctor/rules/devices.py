"""DeviceClasses, what drivers publish, and pods that keep devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from dra_spawner import names
from dra_spawner.common.counted_text import counted, listed
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.node_clocks import seconds_of
from dra_spawner.doctor.objects import labels_of, name_of, pod_spec
from dra_spawner.dra.model.devices import Device, DeviceId, PoolId, ResourceSlice
from dra_spawner.dra.model.same_hardware import pairs_by_node
from dra_spawner.dra.model.taint_rules import DeviceTaintRule
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.profiles.drivers import driver_of_class, drivers_prepare_for, known_driver
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.simulator.usage.device_doubts import MissingDevice, missing_devices

_SUBJECT: Final = Subject.DEVICES
_LISTED: Final = 3
_STUCK_SECONDS: Final = 600.0

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
    "look at the log of the driver's pod that publishes the pool",
)
MISSING_DEVICES: Final = DoctorRule(
    "missing-devices",
    _SUBJECT,
    (Severity.ERROR,),
    "a claim has a device that no driver publishes any more, so no server is promised what is left of its pool",
    "look at the driver's pod that publishes the pool; stop the server when the device does not come back",
)
SECOND_CONSUMER: Final = DoctorRule(
    "second-consumer",
    _SUBJECT,
    (Severity.ERROR,),
    "several running pods use a claim that its driver prepares for one of them, so the others lack the device",
    "stop the later pods, and give each a claim of its own",
)
SAME_HARDWARE: Final = DoctorRule(
    "same-hardware-twice",
    _SUBJECT,
    (Severity.ERROR,),
    "two published devices are the same hardware, and no counters say so: two servers may be given it",
    "let only one of them be published, for example by a driver that divides GPUs itself",
)
TAINTED_DEVICES: Final = DoctorRule(
    "tainted-devices",
    _SUBJECT,
    (Severity.WARNING,),
    "a driver has marked devices, most often as broken, or a DeviceTaintRule closes them",
    "look at the taint and at the device; delete the rule when its devices may be given away again",
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
    "look at the driver's pods on the node, and at their tolerations",
)
STUCK_POD: Final = DoctorRule(
    "stuck-pod",
    _SUBJECT,
    (Severity.WARNING,),
    "a pod has been terminating for ten minutes, and no other pod can have its devices",
    "look at the node and at the driver's pod there; delete the pod by force only when the node is off",
)

DEVICE_RULES: Final = rules_of(globals())

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


def device_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about classes, slices and pods with devices."""
    yield from _stuck(facts)
    yield from _second_consumers(facts)
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
    yield from _missing(facts, facts.slices)
    yield from _same_hardware(facts.slices)
    yield from _tainted(facts.slices)
    yield from _closed(facts.slices, facts.rules or ())
    yield from _nodes(facts, facts.slices)


def _empty_classes(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
    publishing = {each.pool_id.driver for each in slices if each.devices}
    known = ClusterFacts(device_classes={each.name: each for each in facts.classes or ()}, slices=tuple(slices))
    empty: dict[str, list[str]] = defaultdict(list)
    for each in facts.classes or ():
        driver = driver_of_class(each.name, known)
        if driver is not None and driver.name not in publishing:
            empty[driver.name].append(each.name)
    for name, classes in sorted(empty.items()):
        yield CLASS_WITHOUT_DEVICES.finding(
            f"The driver {name} publishes no devices, so profiles with {listed(classes, _LISTED)} wait.",
            "Look at the driver's pods. Where nodes with these devices are added on demand, this needs no action.",
            f"DeviceClass {classes[0]}",
        )


def _incomplete_pools(slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
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
                f"If it stays so for minutes, look at the log of {_publishing_pod(pool_id, slices)}.",
                f"pool {pool_id}",
            )


def _publishing_pod(pool_id: PoolId, slices: Sequence[ResourceSlice]) -> str:
    """The driver's pod that publishes a pool, by its node where slices of the pool still name one."""
    nodes = {each.node_name for each in slices if each.pool_id == pool_id}
    node = nodes.pop() if len(nodes) == 1 else None
    pod = f"the pod of driver {pool_id.driver}"
    return f"{pod} on node {node}" if node else f"{pod} that publishes pool {pool_id.pool}"


def _missing(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
    held = [(str(each.key), part) for each in facts.claims or () for part in each.claim.status.devices or ()]
    by_driver: dict[str, list[MissingDevice]] = defaultdict(list)
    for missing in missing_devices(slices, held):
        by_driver[missing.device.driver].append(missing)
    for driver, found in sorted(by_driver.items()):
        is_one = len(found) == 1
        yield MISSING_DEVICES.finding(
            f"The driver {driver} does not publish {counted(len(found), 'device')} any more that "
            f"{'a claim has' if is_one else 'claims have'}: "
            f"{listed([f'{each.device} of claim {each.claim}' for each in found], _LISTED)}. How much of their "
            "pools is in use is not known, so the service places no server on other devices of these pools.",
            f"Look at {_publishing_pod(PoolId(driver, found[0].device.pool), slices)}. If the device does not come "
            "back, stop the servers with these claims.",
            f"ResourceClaim {found[0].claim}",
        )


def _second_consumers(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Claims with several consumers; pods that wait or end, as in a handover, are none."""
    prepare_for = drivers_prepare_for()
    pods = {str((pod.get("metadata") or {}).get("uid")): pod for pod in facts.hub_namespace_pods or ()}
    for tracked in facts.claims or ():
        alone = {each.id.driver for each in tracked.claim.status.devices or () if not each.admin_access}
        alone = {driver for driver in alone if prepare_for.get(driver) is PreparedFor.POD}
        users = [each for each in tracked.consumers if _may_run(pods.get(each.uid))]
        if len(users) < 2 or not any(_is_for_one(driver) for driver in alone):
            continue
        yield SECOND_CONSUMER.finding(
            f"{len(users)} pods use claim {tracked.key}: {listed([each.name for each in users], _LISTED)}. The driver "
            f"{min(filter(_is_for_one, alone))} prepares a claim for one pod, so the others run without the device.",
            "Stop all but the first of these pods. Give each server a claim of its own: remove shared, or name a "
            "template instead of a claim.",
            f"ResourceClaim {tracked.key}",
        )


def _is_for_one(driver: str) -> bool:
    known = known_driver(driver)
    return known is None or not known.serves_several


def _may_run(pod: JsonObject | None) -> bool:
    """Whether a pod has a node and does not end; one that is not seen may."""
    if pod is None:
        return True
    return bool(pod_spec(pod).get("nodeName")) and not pod["metadata"].get("deletionTimestamp")


def _same_hardware(slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
    for pair in pairs_by_node(slices):
        device, other = pair.device.id, pair.other.id
        if pair.is_part:
            yield SAME_HARDWARE.finding(
                f"Device {device} is published whole and as its parts ({other.device}), and no shared counters say so: "
                "a server that is given the whole device does not start, or takes what others use.",
                "Let the driver divide the device itself, with counters, or do not publish it whole. Select parts in "
                "profiles until then.",
                f"device {device}",
            )
        else:
            yield SAME_HARDWARE.finding(
                f"The devices {device} and {other} are the same hardware, and no shared counters say so: two servers "
                "may be given it.",
                "Let only one driver publish it.",
                f"device {device}",
            )


def _tainted(slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
    by_taint: dict[tuple[str, str, str], list[Device]] = defaultdict(list)
    for each in slices:
        for device in each.devices:
            for taint in device.taints:
                if str(taint.effect) in ("NoSchedule", "NoExecute"):
                    by_taint[each.pool_id.driver, taint.key, str(taint.effect)].append(device)
    for (driver, key, effect), devices in sorted(by_taint.items(), key=lambda item: item[0]):
        yield TAINTED_DEVICES.finding(
            f"{counted(len(devices), 'device')} of {driver} {'has' if len(devices) == 1 else 'have'} the taint "
            f"{key} ({effect}), so servers do not get {'it' if len(devices) == 1 else 'them'}: "
            f"{listed([device.id for device in devices], _LISTED)}.",
            "The taint says what is wrong. Repair the device, or restart the driver's pod when it is repaired.",
            f"device {devices[0].id}",
        )


def _closed(slices: Sequence[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> Iterator[DoctorFinding]:
    """Devices that rules close; a rule that selects none is none of them."""
    for rule in rules:
        if rule.taint.effect not in ("NoSchedule", "NoExecute"):
            continue
        # Without a selector: the scheduler of 1.36 takes all devices.
        devices = [
            each.id for item in slices for each in item.devices if rule.selects(each.id) or not rule.has_selector
        ]
        if not devices:
            continue
        it = "it" if len(devices) == 1 else "them"
        until = (
            "" if rule.has_selector else ", as it has no selector and Kubernetes before 1.37 takes it for one of all"
        )
        found = (
            f"Device {devices[0]} is drained, so no new server gets it."
            if rule.taint.key == names.DRAINED_DEVICE and len(devices) == 1
            else f"DeviceTaintRule {rule.name} closes {counted(len(devices), 'device')} by the taint {rule.taint.key} "
            f"({rule.taint.effect}), so servers do not get {it}{until}: {listed(devices, _LISTED)}."
        )
        yield TAINTED_DEVICES.finding(
            found,
            f"When servers may get {it} again: {_opened_by(rule, devices[0])}",
            f"DeviceTaintRule {rule.name}",
        )


def _opened_by(rule: DeviceTaintRule, device: DeviceId) -> str:
    """The command; the service makes its own rule of a drain again as long as the drain is there."""
    is_drain = rule.taint.key == names.DRAINED_DEVICE
    return f"dra-spawner drain {device} --end" if is_drain else f"kubectl delete devicetaintrule {rule.name}"


def _nodes(facts: DoctorFacts, slices: Sequence[ResourceSlice]) -> Iterator[DoctorFinding]:
    publishing: dict[str, set[str]] = defaultdict(set)
    for each in slices:
        if each.node_name and each.devices:
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
            f"A device plugin offers {resource} on {listed(nodes, _LISTED)}, where the driver {driver} publishes the "
            "same devices: two servers may be given one GPU.",
            "Disable the device plugin on nodes with the driver, for example by a node label that its DaemonSet "
            "requires.",
            f"Node {nodes[0]}",
        )
    for label, nodes in sorted(without.items()):
        yield NODE_WITHOUT_DRIVER.finding(
            f"{counted(len(nodes), 'node')} with the label {label} "
            f"{'has' if len(nodes) == 1 else 'have'} no devices of a DRA driver: {listed(nodes, _LISTED)}.",
            f"Look at the driver's pod there: kubectl get pods --all-namespaces --field-selector "
            f"spec.nodeName={nodes[0]}. If there is none, its DaemonSet does not tolerate the node's taint. A GPU "
            "in MIG mode without slices is not published.",
            f"Node {nodes[0]}",
        )


def _stuck(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    now = facts.now + facts.clocks.get("API server", 0.0)
    stuck: list[tuple[float, str]] = []
    for pod in facts.hub_namespace_pods or ():
        ends = seconds_of((pod.get("metadata") or {}).get("deletionTimestamp"))
        if ends is not None and now - ends > _STUCK_SECONDS and pod_spec(pod).get("resourceClaims"):
            stuck.append((now - ends, name_of(pod)))
    if stuck:
        stuck.sort(reverse=True)
        yield STUCK_POD.finding(
            f"{counted(len(stuck), 'pod')} with devices should have ended {stuck[0][0] / 60:.0f} minutes ago: "
            f"{listed([name for _, name in stuck], _LISTED)}. No other pod can have the devices until it has ended.",
            "Look at the node, its kubelet and the driver's pod there: kubectl describe pod "
            f"--namespace {facts.namespace} {stuck[0][1]}. Delete the pod by force only when the node is off.",
            f"Pod {stuck[0][1]}",
        )
