"""Schedulers, client limits of the control plane, and image pullers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import DoctorFacts
from dra_spawner.doctor.findings import DoctorFinding, DoctorRule, Severity, Subject, rules_of
from dra_spawner.doctor.objects import (
    component_of,
    flags_of,
    image_version,
    labels_of,
    name_of,
    pod_spec,
    tolerates,
)
from dra_spawner.versions import KUBERNETES

_SUBJECT: Final = Subject.SCHEDULING
_USER_SCHEDULER: Final = "user-scheduler"
_DEFAULT: Final = "default-scheduler"
_OFF: Final = "In the values of the hub: scheduling: {userScheduler: {enabled: false}}; then helm upgrade."
#: Advice of Kubernetes for claims: requests a second, and the burst. Defaults of each program.
_ADVISED: Final = (75, 150)
_DEFAULTS: Final = {"kube-controller-manager": (20, 30), "kube-scheduler": (50, 100)}
_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})

USER_SCHEDULER: Final = DoctorRule(
    "user-scheduler",
    _SUBJECT,
    (Severity.ERROR, Severity.WARNING),
    "the chart's user-scheduler runs: up to chart 4.4 it starts pods without their devices",
    "scheduling.userScheduler.enabled: false in the hub's values",
)
TWO_SCHEDULERS: Final = DoctorRule(
    "two-schedulers",
    _SUBJECT,
    (Severity.WARNING,),
    "servers or placeholders with devices use different schedulers, which do not know one another's choices",
    "one scheduler for all pods with devices",
)
CLIENT_LIMITS: Final = DoctorRule(
    "client-limits",
    _SUBJECT,
    (Severity.WARNING,),
    "the limit of requests of kube-controller-manager or kube-scheduler makes rushes with claims slow",
    "--kube-api-qps=75 --kube-api-burst=150",
)
LIMITS_NOT_SHOWN: Final = DoctorRule(
    "limits-not-shown",
    _SUBJECT,
    (Severity.INFO,),
    "the control plane is not visible (a managed one), or its limits are in a file",
    "none",
)
PULLER_SKIPS_NODES: Final = DoctorRule(
    "puller-skips-nodes",
    _SUBJECT,
    (Severity.WARNING,),
    "the image puller does not tolerate the taint of nodes with devices, so the first server there pulls its image",
    "prePuller.extraTolerations in the hub's values",
)

SCHEDULING_RULES: Final = rules_of(globals())


def scheduling_findings(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Findings about schedulers, client limits and pullers."""
    yield from _user_scheduler(facts)
    yield from _two_schedulers(facts)
    yield from _limits(facts)
    yield from _pullers(facts)


def _user_scheduler(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    running = [*(facts.deployments or ()), *(facts.hub_namespace_pods or ())]
    found = next((each for each in running if component_of(each) == _USER_SCHEDULER), None)
    if found is None:
        return
    version = image_version(found)
    where = name_of(found)
    if version is None or version < KUBERNETES.least:
        shown = "of unknown version" if version is None else ".".join(map(str, version))
        yield USER_SCHEDULER.finding(
            f"The chart's user-scheduler ({shown}) runs. Before Kubernetes 1.34 it binds servers to nodes without "
            "allocating their devices, and they never start.",
            _OFF,
            where,
        )
    else:
        yield USER_SCHEDULER.finding(
            "The chart's user-scheduler runs beside kube-scheduler. It counts placeholders for users, so new servers "
            "go to emptier nodes, and each scheduler may choose a device that the other one has just chosen.",
            _OFF,
            where,
            Severity.WARNING,
        )


def _two_schedulers(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    by_scheduler: dict[str, JsonObject] = {}
    for pod in facts.hub_namespace_pods or ():
        spec = pod_spec(pod)
        if spec.get("resourceClaims"):
            by_scheduler.setdefault(str(spec.get("schedulerName") or _DEFAULT), pod)
    if len(by_scheduler) > 1:
        found = ", ".join(f"{name} (pod {name_of(pod)})" for name, pod in sorted(by_scheduler.items()))
        yield TWO_SCHEDULERS.finding(
            f"Pods with devices have different schedulers: {found}. Each may choose a device that the other one has "
            "just chosen; then a server waits for a second attempt.",
            "Leave c.KubeSpawner.scheduler_name and scheduler_name in profiles unset.",
            f"Namespace {facts.namespace}",
        )


def _limits(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    if facts.control_plane is None:
        return
    unknown = []
    for program, defaults in _DEFAULTS.items():
        pod = next((each for each in facts.control_plane if labels_of(each).get(names.COMPONENT) == program), None)
        limits = _limits_of(flags_of(pod), defaults) if pod is not None else None
        if pod is None or limits is None:
            unknown.append(program)
        elif limits[0] < _ADVISED[0] or limits[1] < _ADVISED[1]:
            yield CLIENT_LIMITS.finding(
                f"{program} may send {limits[0]:g} requests a second (burst {limits[1]:g}). Each server with devices "
                "costs it several, so a class that starts at once waits.",
                f"In the flags of {program}: --kube-api-qps={_ADVISED[0]} --kube-api-burst={_ADVISED[1]}. Warm claims "
                "of placeholders need fewer requests.",
                f"Pod {name_of(pod)}",
            )
    if unknown:
        yield LIMITS_NOT_SHOWN.finding(
            f"The client limits of {' and '.join(unknown)} are not visible, as on most managed control planes. "
            f"If you can set them, {_ADVISED[0]} requests a second with a burst of {_ADVISED[1]} are good for devices."
        )


def _limits_of(flags: Mapping[str, str], defaults: tuple[int, int]) -> tuple[float, float] | None:
    """Requests a second and burst; None if a file has them."""
    if flags.get("config") and not {"kube-api-qps", "kube-api-burst"} <= flags.keys():
        return None
    try:
        return float(flags.get("kube-api-qps") or defaults[0]), float(flags.get("kube-api-burst") or defaults[1])
    except ValueError:
        return None


def _pullers(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    publishing = {each.node_name for each in facts.slices or () if each.node_name and each.devices}
    nodes = [each for each in facts.nodes or () if name_of(each) in publishing]
    for puller in facts.daemon_sets or ():
        if component_of(puller) not in names.IMAGE_PULLERS:
            continue
        tolerations: Sequence[JsonObject] = pod_spec(puller).get("tolerations") or ()
        skipped: dict[tuple[str, str, str], list[str]] = {}
        for node in nodes:
            for taint in (node.get("spec") or {}).get("taints") or ():
                is_lasting = not str(taint.get("key") or "").startswith((names.NODE_PREFIX, names.STARTUP_TAINT_PREFIX))
                if taint.get("effect") in _EFFECTS and is_lasting and not tolerates(tolerations, taint):
                    key = (str(taint.get("key")), str(taint.get("value") or ""), str(taint["effect"]))
                    skipped.setdefault(key, []).append(name_of(node))
        for (name, value, effect), found in sorted(skipped.items()):
            shown = f"{name}={value}:{effect}" if value else f"{name}:{effect}"
            yield PULLER_SKIPS_NODES.finding(
                f"{name_of(puller)} does not tolerate the taint {shown} of {found[0]}"
                f"{f' and {len(found) - 1} more nodes' if len(found) > 1 else ''}: the first server there waits for "
                "its image.",
                f"In the values of the hub: prePuller: {{extraTolerations: [{{key: {name}, operator: Exists, "
                f"effect: {effect}}}]}}.",
                f"DaemonSet {name_of(puller)}",
            )
