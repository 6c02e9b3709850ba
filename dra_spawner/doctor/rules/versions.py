"""Versions and feature gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dra_spawner import names
from dra_spawner.common.project_links import where
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.objects import chart_of, hub_deployment, name_of, version_of
from dra_spawner.dra import scheduler_rules
from dra_spawner.versions import KUBERNETES, Z2JH, kubelet_version, package_problems, version_text

_SUBJECT: Final = Subject.VERSIONS
_CHART: Final = "jupyterhub-"
#: Gates of device allocation, and what is lost without each; the first one was removed in Kubernetes 1.38.
_GATES: Final = {
    "DynamicResourceAllocation": "devices cannot be requested at all",
    "DRAConsumableCapacity": "a device cannot be shared by several servers",
    "DRAPartitionableDevices": "partitions of a device, such as dynamic MIG, are not offered",
    "DRAPrioritizedList": "a profile cannot list alternatives (first_available)",
    "DRAAdminAccess": "access for administration is dropped",
    "DRADeviceTaints": "servers are given devices that a driver has marked as broken",
    "DRAExtendedResource": "profiles with extended resources get no devices of DRA drivers",
}
_NEEDED_GATE: Final = "DynamicResourceAllocation"

KUBERNETES_VERSION: Final = DoctorRule(
    "kubernetes-version",
    _SUBJECT,
    (Severity.ERROR, Severity.INFO),
    "Kubernetes is older than 1.34, or newer than the newest tested release",
    "upgrade the cluster",
)
KUBELET_VERSION: Final = DoctorRule(
    "kubelet-version",
    _SUBJECT,
    (Severity.ERROR,),
    "the kubelet of a node with devices is older than 1.34, so servers with devices do not start there",
    "upgrade the node",
)
RESOURCE_API: Final = DoctorRule(
    "resource-api",
    _SUBJECT,
    (Severity.ERROR,),
    "the API server does not serve resource.k8s.io/v1",
    "remove it from --runtime-config of kube-apiserver",
)
FEATURE_GATE: Final = DoctorRule(
    "feature-gate",
    _SUBJECT,
    (Severity.ERROR, Severity.WARNING),
    "a feature gate about devices is off",
    "turn it on in kube-apiserver, kube-scheduler, kube-controller-manager and the kubelets",
)
GATE_SETTING: Final = DoctorRule(
    "gate-setting",
    _SUBJECT,
    (Severity.WARNING,),
    "the API server has a feature gate otherwise than the service computes with, so what is free may be wrong",
    "the same kubernetes_feature_gates in hub and service as kube-scheduler has",
)
CHART_VERSION: Final = DoctorRule(
    "chart-version",
    _SUBJECT,
    (Severity.ERROR, Severity.INFO),
    "zero-to-jupyterhub is older than 4.0, or the hub is not of this chart",
    "upgrade the chart",
)
HUB_VERSION: Final = DoctorRule(
    "hub-version",
    _SUBJECT,
    (Severity.ERROR,),
    "JupyterHub or KubeSpawner has an unsupported version",
    "install a supported version in the hub's image",
)

VERSION_RULES: Final = rules_of(globals())


def version_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about versions and gates."""
    yield from _kubernetes(facts)
    yield from _kubelets(facts)
    yield from _gates(facts)
    yield from _gate_settings(facts)
    yield from _chart(facts)
    yield from _hub(facts)


def _kubernetes(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    found = facts.kubernetes
    if found is not None and found < KUBERNETES.least:
        yield KUBERNETES_VERSION.finding(
            f"Kubernetes {version_text(found)} is not supported: {names.RESOURCE_API} came with "
            f"{version_text(KUBERNETES.least)}.",
            f"Upgrade the cluster to Kubernetes {version_text(KUBERNETES.least)} or later.",
        )
        return
    if found is not None and found > KUBERNETES.tested:
        newest = version_text(KUBERNETES.tested)
        newer = f"Kubernetes {version_text(found)} is newer than {newest}, the newest release that was tested."
        yield KUBERNETES_VERSION.finding(
            f"{newer} {scheduler_rules.inexact_rules(found)}".rstrip(), severity=Severity.INFO
        )
    version = names.RESOURCE_API.rpartition("/")[2]
    if facts.versions is not None and version not in facts.versions:
        served = f"only {', '.join(sorted(facts.versions))}" if facts.versions else "none of its versions"
        yield RESOURCE_API.finding(
            f"The API server does not serve {names.RESOURCE_API}; it serves {served}. Nothing can request devices.",
            f"Remove {names.RESOURCE_API}=false from --runtime-config of kube-apiserver.",
        )


def _kubelets(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    with_devices = {each.node_name for each in facts.slices or () if each.node_name and each.devices}
    old = [
        (found, name_of(node))
        for node in facts.nodes or ()
        if name_of(node) in with_devices
        and (has := kubelet_version(node)) is not None
        and (found := has[0]) < KUBERNETES.least
    ]
    if old:
        version, node = min(old)
        more = f" and {len(old) - 1} more" if len(old) > 1 else ""
        yield KUBELET_VERSION.finding(
            f"The kubelet of {node}{more} is {version_text(version)}: it does not know {names.RESOURCE_API}, so "
            "servers with devices do not start there.",
            f"Upgrade the node to Kubernetes {version_text(KUBERNETES.least)} or later.",
            f"Node {node}",
        )


def _gates(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    for gate, lost in _GATES.items():
        if facts.gates is not None and facts.gates.get(gate) is False:
            yield FEATURE_GATE.finding(
                f"The feature gate {gate} of kube-apiserver is off: {lost}.",
                f"Set --feature-gates={gate}=true in kube-apiserver, kube-scheduler, kube-controller-manager and "
                "kubelets.",
                severity=Severity.ERROR if gate == _NEEDED_GATE else Severity.WARNING,
            )


def _gate_settings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Gates of the API server with which devices would be computed otherwise; the scheduler's own are not known."""
    if facts.gates is None or facts.settings is None or facts.kubernetes is None:
        return
    known = facts.settings.feature_gates
    computed = scheduler_rules.rules_of(facts.kubernetes, known)
    for gate in scheduler_rules.GATES:
        is_on = facts.gates.get(gate)
        if is_on is None or scheduler_rules.rules_of(facts.kubernetes, {**known, gate: is_on}) == computed:
            continue
        yield GATE_SETTING.finding(
            f"The feature gate {gate} of kube-apiserver is {'on' if is_on else 'off'}, and the service computes what "
            "is free as if it were not.",
            "If kube-scheduler has it, too: kubernetes_feature_gates: "
            f"{{{gate}: {str(is_on).lower()}}} in service.config of the chart dra-spawner, and the same in "
            "c.DRASpawner.kubernetes_feature_gates. Else set the gate alike in both programs.",
        )


def _chart(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    hub = hub_deployment(facts.deployments)
    if hub is None:
        return
    chart = chart_of(hub)
    found = version_of(chart.removeprefix(_CHART)) if chart.startswith(_CHART) else None
    where = f"Deployment {name_of(hub)}"
    if found is None:
        yield CHART_VERSION.finding(
            "The hub has no version of zero-to-jupyterhub in its labels, so that version was not examined.",
            where=where,
            severity=Severity.INFO,
        )
    elif found < Z2JH.least and found > (0, 0):
        yield CHART_VERSION.finding(
            f"zero-to-jupyterhub {version_text(found)} is not supported; {version_text(Z2JH.least)} or later is.",
            f"helm upgrade the hub to chart {version_text(Z2JH.least)} or later.",
            where,
        )


def _hub(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    answered = facts.hub.body.get("version") if facts.hub is not None else None
    packages = {**facts.packages, **({"jupyterhub": answered} if isinstance(answered, str) else {})}
    for sentence in package_problems(packages):
        yield HUB_VERSION.finding(
            sentence,
            f"Install a supported version in the hub's image: {where('docs/reference/versions.md')}.",
        )
