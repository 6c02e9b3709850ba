"""Known defects of this version of Kubernetes that this cluster meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.objects import name_of, pod_spec
from dra_spawner.dra.model.devices import Device
from dra_spawner.kubernetes_defects import FoundVersion, KubernetesDefect, Meets, Program, defects_of
from dra_spawner.versions import MinorVersion, kubelet_version, version_text

#: Kubernetes' own tests are slow with 500 nodes, and sound with 100.
_MANY_NODES: Final = 200
_TAINT_RULES: Final = "DRADeviceTaintRules"

KUBERNETES_DEFECT: Final = DoctorRule(
    "kubernetes-defect",
    Subject.VERSIONS,
    (Severity.WARNING, Severity.INFO),
    "this version of Kubernetes, or of a kubelet, has a known defect that can hurt servers here",
    "upgrade to the version that mends it",
)

DEFECT_RULES: Final = rules_of(globals())


def defect_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about known defects, each once."""
    if facts.kubernetes is not None:
        version = (facts.kubernetes, facts.kubernetes_patch)
        for program in (Program.SCHEDULER, Program.CONTROLLER_MANAGER):
            for defect in defects_of(program, version):
                if _MEETS[defect.meets](facts):
                    yield _finding(defect, version, "")
    by_version: dict[FoundVersion, list[str]] = {}
    with_devices = {each.node_name for each in facts.slices or () if each.node_name and each.devices}
    for node in facts.nodes or ():
        if name_of(node) in with_devices and (found := kubelet_version(node)) is not None:
            by_version.setdefault(found, []).append(name_of(node))
    for version, nodes in sorted(by_version.items(), key=lambda item: (item[0][0], item[0][1] or 0)):
        for defect in defects_of(Program.KUBELET, version):
            more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            yield _finding(defect, version, f"Node {min(nodes)}{more}")


def _finding(defect: KubernetesDefect, version: FoundVersion, where: str) -> DoctorFinding:
    severity = Severity.INFO if defect.meets is Meets.LARGE_CLUSTER else Severity.WARNING
    return KUBERNETES_DEFECT.finding(
        f"{defect.program} {_shown(version)} has a known defect ({defect.address}). {defect.happens}",
        defect.remedy(version[0]),
        where,
        severity,
    )


def _shown(version: tuple[MinorVersion, int | None]) -> str:
    minor, patch = version
    return version_text(minor) if patch is None else f"{version_text(minor)}.{patch}"


def _devices(facts: DoctorFacts) -> Iterator[Device]:
    return (device for each in facts.slices or () for device in each.devices)


def _has_devices(facts: DoctorFacts) -> bool:
    return any(True for _ in _devices(facts))


def _has_partitions(facts: DoctorFacts) -> bool:
    return any(device.consumes_counters for device in _devices(facts))


def _has_shared_partitions(facts: DoctorFacts) -> bool:
    return any(device.consumes_counters and device.description.allow_multiple_allocations for device in _devices(facts))


def _is_large(facts: DoctorFacts) -> bool:
    return len({each.node_name for each in facts.slices or () if each.node_name and each.devices}) >= _MANY_NODES


def _has_taint_rules(facts: DoctorFacts) -> bool:
    return bool((facts.gates or {}).get(_TAINT_RULES))


def _waits_for_template(facts: DoctorFacts) -> bool:
    """Whether a pod has claims from templates, and none of them exists."""
    return any(wanted and not made for wanted, made in map(_template_claims, facts.hub_namespace_pods or ()))


def _misses_some_claims(facts: DoctorFacts) -> bool:
    """Whether a pod's status names some of its claims from templates, and not all."""
    return any(0 < made < wanted for wanted, made in map(_template_claims, facts.hub_namespace_pods or ()))


def _template_claims(pod: JsonObject) -> tuple[int, int]:
    """Number of a pod's claims from templates, and how many of them its status names."""
    wanted = {
        each.get("name") for each in pod_spec(pod).get("resourceClaims") or () if each.get("resourceClaimTemplateName")
    }
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return len(wanted), len(wanted & {each.get("name") for each in statuses})


#: Whether a cluster meets a defect of the control plane; a kubelet's is met on each node with devices.
_MEETS: Final[Mapping[Meets, Callable[[DoctorFacts], bool]]] = {
    Meets.RUSH: _has_devices,
    Meets.SHARED_PARTITIONS: _has_shared_partitions,
    Meets.ALL_OF_PARTITIONS: _has_partitions,
    Meets.PARTITIONS: _has_partitions,
    Meets.TAINT_RULES: _has_taint_rules,
    Meets.LATE_TEMPLATE: _waits_for_template,
    Meets.SEVERAL_TEMPLATES: _misses_some_claims,
    Meets.LARGE_CLUSTER: _is_large,
}
