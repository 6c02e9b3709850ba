"""The fields of pods that decide where they run, decoded once from the API's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern
from typing import Any, Final

from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.node_selector import NodeSelector, Requirement
from dra_spawner.dra.model.objects import Toleration
from dra_spawner.dra.quantity import Quantity
from dra_spawner.simulator.model.labels import label_requirements
from dra_spawner.simulator.model.pod_limits import MAX_HOST_PORTS, MAX_RESOURCES, short_parts, too_many_conditions
from dra_spawner.simulator.model.pod_parts import (
    ANY_ADDRESS,
    ClaimReference,
    Container,
    HostPort,
    PreferredNodes,
    SpreadConstraint,
    UnhealthyDevice,
    unhealthy_devices,
    waits_because,
)
from dra_spawner.simulator.model.resources import CPU, MEMORY, Amounts, PodRequests, container_sum, to_amounts

__all__ = [
    "DEFAULT_SCHEDULER",
    "ClaimReference",
    "Container",
    "HostPort",
    "Pod",
    "PodAffinityTerm",
    "PreferredNodes",
    "SpreadConstraint",
]

DEFAULT_SCHEDULER: Final = "default-scheduler"

# Amounts that count for a container without a request of its own, when nodes are scored, and only then.
_SCORING_DEFAULTS: Final = {CPU: Quantity.parse("100m"), MEMORY: Quantity.parse("200Mi")}
_POD_LEVEL_RESOURCES: Final = (CPU, MEMORY, "hugepages-")


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A term of a pod's affinity or anti-affinity: it selects other pods."""

    topology_key: str
    labels: tuple[Requirement, ...] | None
    """Conditions on the other pods' labels; None selects no pod."""
    namespaces: frozenset[str] | None
    """Namespaces of the other pods; None for all."""
    weight: int = 1
    """Weight of a preference."""
    unmodelled: tuple[str, ...] = ()
    """Fields that are not modelled, so that it is not known which pods the term selects."""

    def matches(self, pod: Pod) -> bool:
        """Whether the term selects a pod, by its modelled fields."""
        if self.labels is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return all(requirement.matches_labels(pod.labels) for requirement in self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """The fields of a pod that decide where it may run. Pods are compared by identity."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    """``metadata.creationTimestamp``."""
    is_deleted: bool = False
    """Whether it is being deleted (``metadata.deletionTimestamp``)."""
    node_name: str = ""
    nominated_node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER
    runtime_class: str = ""
    """``runtimeClassName``."""
    phase: str = "Pending"
    start_time: str = ""
    """``status.startTime``."""
    unhealthy_devices: tuple[UnhealthyDevice, ...] = ()
    waits_because: str = ""
    """Why a container does not start, as the kubelet says it; empty if it says nothing."""
    gates: tuple[str, ...] = ()
    """Names of scheduling gates."""
    is_preempted: bool = False
    """Whether the scheduler preempts it (condition DisruptionTarget)."""
    priority: int = 0
    priority_class: str = ""
    """``priorityClassName``."""
    preempts: bool = True
    """Whether it may preempt other pods (``preemptionPolicy``)."""
    requests: Amounts = field(default_factory=dict)
    scoring_requests: Amounts = field(default_factory=dict)
    """CPU and memory, with defaults for containers that request none."""
    tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required_nodes: NodeSelector | None = None
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    """Image of each container, init containers first."""
    pull_secrets: frozenset[str] = frozenset()
    """Names of its ``imagePullSecrets``."""
    claims: tuple[ClaimReference, ...] = ()
    extended_claim: str = ""
    """Claim that the scheduler has made for its extended resources; empty without one."""
    volume_claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims it mounts."""
    undecidable: tuple[str, ...] = ()
    """Parts of the spec that decide where it may run but are not modelled, or are too long to be."""
    too_many: str = ""
    """Parts of the spec that were left out as they are too long; empty if there are none (see `pod_limits`)."""
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    """Init containers first."""
    controller: str = ""
    """Kind of its controlling owner, for example DaemonSet; empty if there is none."""

    def selects_node(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether node selector and required node affinity allow a node; malformed terms allow none."""
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.required_nodes is None or any(
            term.matches(name, labels) for term in self.required_nodes.valid_terms
        )

    @property
    def is_gated(self) -> bool:
        """Whether scheduling gates keep the scheduler from placing it."""
        return bool(self.gates)

    @property
    def has_unhealthy_device(self) -> bool:
        """Whether a driver reports a device of it as unhealthy."""
        return bool(self.unhealthy_devices)

    @property
    def is_running(self) -> bool:
        """Whether its phase is Running: all containers were created, and at least one runs."""
        return self.phase == "Running"

    @property
    def is_finished(self) -> bool:
        """Whether it has ended and uses no resources any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def has_pod_affinity(self) -> bool:
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_json(cls, obj: object) -> Pod:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        root = Reader.root(obj, "Pod")
        metadata = root.required_child("metadata")
        spec, too_long = short_parts(root.required_child("spec"))
        status = root.child("status") or Reader({}, "status", root)
        extended = status.child("extendedResourceClaimStatus")
        namespace = intern(metadata.text("namespace"))
        labels = {intern(name): intern(value) for name, value in metadata.text_map("labels").items()}
        containers, init_containers = spec.children("containers"), spec.children("initContainers")
        affinity = _Affinity(spec.child("affinity"), namespace)
        by_devices = [
            claim_status.quantity_map("resources") or {}
            for claim_status in status.children("nodeAllocatableResourceClaimStatuses")
        ]
        requests = _requests(spec, containers, init_containers, {}, by_devices)
        if len(requests) > MAX_RESOURCES:
            requests = dict(sorted(requests.items(), key=lambda item: ("/" in item[0], item[0]))[:MAX_RESOURCES])
            too_long.append(f"requests of more than {MAX_RESOURCES} resources")
        host_ports = _host_ports(spec, containers, init_containers)
        if len(host_ports) > MAX_HOST_PORTS:
            host_ports = host_ports[:MAX_HOST_PORTS]
            too_long.append(f"more than {MAX_HOST_PORTS} host ports")
        scoring = to_amounts(_requests(spec, containers, init_containers, _SCORING_DEFAULTS))
        pod = cls(
            name=metadata.required_text("name"),
            namespace=namespace,
            uid=metadata.text("uid"),
            labels=labels,
            created=metadata.text("creationTimestamp"),
            is_deleted=metadata.has("deletionTimestamp"),
            node_name=spec.text("nodeName"),
            nominated_node_name=status.text("nominatedNodeName"),
            scheduler_name=spec.text("schedulerName") or DEFAULT_SCHEDULER,
            runtime_class=spec.text("runtimeClassName"),
            phase=status.text("phase") or "Pending",
            start_time=status.text("startTime"),
            unhealthy_devices=unhealthy_devices(status),
            waits_because=waits_because(status),
            gates=tuple(each.text("name") for each in spec.children("schedulingGates")),
            is_preempted=any(
                condition.text("type") == "DisruptionTarget"
                and condition.text("status") == "True"
                and condition.text("reason") == "PreemptionByScheduler"
                for condition in status.children("conditions")
            ),
            priority=spec.integer("priority"),
            priority_class=intern(spec.text("priorityClassName")),
            preempts=spec.text("preemptionPolicy") != "Never",
            requests=to_amounts(requests),
            scoring_requests={name: scoring.get(name, 0) for name in (CPU, MEMORY)},
            tolerations=_shared(tuple(map(Toleration.decode, spec.children("tolerations")))),
            node_selector=spec.text_map("nodeSelector"),
            required_nodes=affinity.required_nodes(),
            preferred_nodes=affinity.preferred_nodes(),
            required_affinity=affinity.required("podAffinity"),
            required_anti_affinity=affinity.required("podAntiAffinity"),
            preferred_affinity=affinity.preferred("podAffinity"),
            preferred_anti_affinity=affinity.preferred("podAntiAffinity"),
            host_ports=host_ports,
            images=_shared(tuple(container.text("image") for container in (*init_containers, *containers))),
            pull_secrets=frozenset(each.text("name") for each in spec.children("imagePullSecrets")),
            claims=_claims(spec, status),
            extended_claim=extended.text("resourceClaimName") if extended is not None else "",
            volume_claims=tuple(
                claim.text("claimName")
                for volume in spec.children("volumes")
                if (claim := volume.child("persistentVolumeClaim")) is not None
            ),
            undecidable=(*too_long, *_undecidable(spec)),
            too_many=", ".join(too_long),
            spread_constraints=tuple(
                SpreadConstraint.decode(constraint, labels)
                for constraint in spec.children("topologySpreadConstraints")
                if constraint.text("whenUnsatisfiable") != "ScheduleAnyway"
            ),
            containers=(
                *(Container.decode(container, is_init=True) for container in init_containers),
                *(Container.decode(container, is_init=False) for container in containers),
            ),
            controller=next(
                (owner.text("kind") for owner in metadata.children("ownerReferences") if owner.boolean("controller")),
                "",
            ),
        )
        return pod._within_limits()

    def _within_limits(self) -> Pod:
        """The pod, without its conditions on nodes and pods if there are too many of them.

        The API server has no limit for them. Without them it is not known where the pod may run (`too_many`); a pod
        that has a node counts as if it had no affinity.
        """
        other_pods = [
            each.labels or ()
            for terms in (
                *(self.required_affinity, self.required_anti_affinity),
                *(self.preferred_affinity, self.preferred_anti_affinity),
            )
            for each in terms
        ]
        other_pods += [each.labels or () for each in self.spread_constraints]
        selectors = [each.selector for each in self.preferred_nodes]
        selectors += [self.required_nodes] if self.required_nodes is not None else []
        too_many = too_many_conditions(
            other_pods,
            selectors,
            more_about_nodes=len(self.tolerations) + len(self.host_ports) + len(self.node_selector),
        )
        if not too_many:
            return self
        return replace(
            self,
            too_many=too_many,
            undecidable=(*self.undecidable, too_many),
            tolerations=(),
            node_selector={},
            required_nodes=None,
            preferred_nodes=(),
            required_affinity=(),
            required_anti_affinity=(),
            preferred_affinity=(),
            preferred_anti_affinity=(),
            host_ports=(),
            spread_constraints=(),
        )


@lru_cache(2_000)
def _shared(parts: Any) -> Any:
    """Equal parts as one object: thousands of pods have the same."""
    return parts


def _requests(
    spec: Reader,
    containers: list[Reader],
    init_containers: list[Reader],
    defaults: PodRequests,
    by_devices: Iterable[PodRequests] = (),
) -> dict[str, Quantity]:
    """Requests of the whole pod; ``by_devices`` is what its devices take of the node's own resources (KEP-5517)."""
    total = container_sum(
        [_container_requests(container, defaults) for container in containers],
        [
            (_container_requests(container, defaults), container.text("restartPolicy") == "Always")
            for container in init_containers
        ],
    )
    for amounts in by_devices:
        _add(total, amounts)
    pod_level = spec.child("resources")
    if pod_level is not None:
        requests = pod_level.quantity_map("requests") or {}
        total |= {name: amount for name, amount in requests.items() if name.startswith(_POD_LEVEL_RESOURCES)}
    _add(total, spec.quantity_map("overhead") or {})
    return total


def _add(total: dict[str, Quantity], more: PodRequests) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _container_requests(container: Reader, defaults: PodRequests) -> PodRequests:
    resources = container.child("resources")
    requests = resources.quantity_map("requests") if resources is not None else None
    return {**defaults, **(requests or {})}


def _host_ports(spec: Reader, containers: list[Reader], init_containers: list[Reader]) -> tuple[HostPort, ...]:
    on_host = bool(spec.boolean("hostNetwork"))
    lasting = [*containers, *(each for each in init_containers if each.text("restartPolicy") == "Always")]
    ports = []
    for container in lasting:
        for port in container.children("ports"):
            number = port.integer("hostPort") or (port.integer("containerPort") if on_host else 0)
            if number > 0:
                ports.append(HostPort(port.text("hostIP") or ANY_ADDRESS, port.text("protocol") or "TCP", number))
    return tuple(ports)


def _claims(spec: Reader, status: Reader) -> tuple[ClaimReference, ...]:
    entries = status.children("resourceClaimStatuses")
    generated = {entry.text("name"): entry.optional_text("resourceClaimName") for entry in entries}
    references = []
    for entry in spec.children("resourceClaims"):
        name, template = entry.required_text("name"), entry.optional_text("resourceClaimTemplateName")
        if template is None:
            references.append(ClaimReference(name, entry.required_text("resourceClaimName")))
        else:
            claim = generated.get(name)
            needed = name not in generated or claim is not None
            references.append(ClaimReference(name, claim, template, is_needed=needed))
    return tuple(references)


def _undecidable(spec: Reader) -> list[str]:
    return ["spec.schedulingGroup"] if spec.has("schedulingGroup") else []


class _Affinity:
    """Reads ``spec.affinity``."""

    def __init__(self, reader: Reader | None, namespace: str) -> None:
        self._reader = reader
        self._namespace = namespace

    def required_nodes(self) -> NodeSelector | None:
        nodes = self._child("nodeAffinity")
        required = nodes.child("requiredDuringSchedulingIgnoredDuringExecution") if nodes is not None else None
        return NodeSelector.decode(required) if required is not None else None

    def preferred_nodes(self) -> tuple[PreferredNodes, ...]:
        nodes = self._child("nodeAffinity")
        if nodes is None:
            return ()
        preferred = []
        for entry in nodes.children("preferredDuringSchedulingIgnoredDuringExecution"):
            entry.required_child("preference")
            term = Reader({"nodeSelectorTerms": [entry.raw("preference")]}, "preference", entry)
            preferred.append(PreferredNodes(entry.integer("weight"), NodeSelector.decode(term)))
        return tuple(preferred)

    def required(self, kind: str) -> tuple[PodAffinityTerm, ...]:
        pods = self._child(kind)
        if pods is None:
            return ()
        return tuple(self._term(term) for term in pods.children("requiredDuringSchedulingIgnoredDuringExecution"))

    def preferred(self, kind: str) -> tuple[PodAffinityTerm, ...]:
        pods = self._child(kind)
        if pods is None:
            return ()
        return tuple(
            self._term(entry.required_child("podAffinityTerm"), entry.integer("weight"))
            for entry in pods.children("preferredDuringSchedulingIgnoredDuringExecution")
        )

    def _child(self, kind: str) -> Reader | None:
        return self._reader.child(kind) if self._reader is not None else None

    def _term(self, term: Reader, weight: int = 1) -> PodAffinityTerm:
        selector = term.child("labelSelector")
        everywhere = term.has("namespaceSelector")
        namespaces = frozenset(term.texts("namespaces") or ()) or frozenset((self._namespace,))
        return PodAffinityTerm(
            topology_key=term.text("topologyKey"),
            labels=label_requirements(selector) if selector is not None else None,
            namespaces=None if everywhere else namespaces,
            weight=weight,
            unmodelled=tuple(_unmodelled(term)),
        )


def _unmodelled(term: Reader) -> list[str]:
    """Fields of a term that are not modelled; an empty namespace selector is modelled: it means all namespaces."""
    found = [key for key in ("matchLabelKeys", "mismatchLabelKeys") if term.texts(key)]
    namespaces = term.child("namespaceSelector")
    if namespaces is not None and label_requirements(namespaces):
        found.append("namespaceSelector")
    return found
