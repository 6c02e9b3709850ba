"""Whether a pod fits on a node apart from devices: kube-scheduler 1.36's filters in its default configuration.

The first refusing filter gives the verdict, in kube-scheduler's words. Relevant parts that are not modelled
(`Pod.undecidable`) give `FitCode.UNDECIDABLE`, unless an earlier filter refuses the node.

Not modelled: limits of volumes on a node, and the nodes of PersistentVolumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_spawner.dra.model.node_selector import NodeSelector
from dra_spawner.dra.model.objects import Taint
from dra_spawner.dra.model.taints import blocking_taint, tolerates
from dra_spawner.names import UNSCHEDULABLE
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import HostPort, Pod
from dra_spawner.simulator.model.resources import CPU
from dra_spawner.simulator.scheduler.pod_affinity import PodAffinity
from dra_spawner.simulator.scheduler.topology_spread import TopologySpread


class Filter(StrEnum):
    """A filter plugin of kube-scheduler, by its name."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NAME = "NodeName"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    VOLUME_BINDING = "VolumeBinding"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"
    DYNAMIC_RESOURCES = "DynamicResources"
    NOT_MODELLED = "NotModelled"
    """No plugin: the scheduler's answer is not known."""


class FitCode(StrEnum):
    """Outcome for a node."""

    FITS = "Fits"
    UNSCHEDULABLE = "Unschedulable"
    """Unschedulable; preemption could help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Unschedulable; preemption would not help."""
    UNDECIDABLE = "Undecidable"
    """Not known: a part is not modelled, a relevant object is invalid, or CEL cannot be evaluated here."""
    ERROR = "Error"
    """kube-scheduler gives up on the pod; more nodes would not help."""


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """Verdict of the filters: whether a pod fits on a node, and if not, why."""

    code: FitCode
    filter: Filter | None = None
    """The refusing filter."""
    reasons: tuple[str, ...] = ()
    """Messages in kube-scheduler's words."""

    @property
    def fits(self) -> bool:
        return self.code is FitCode.FITS

    @property
    def has_unknown_devices(self) -> bool:
        """Whether it is unknown which devices of the node the pod's claims select."""
        return self.code is FitCode.UNDECIDABLE and self.filter is Filter.DYNAMIC_RESOURCES

    @property
    def ends_attempt(self) -> bool:
        """Whether the attempt to place the pod ends at this node."""
        return self.code is FitCode.ERROR or self.has_unknown_devices


FITS: Final = FilterVerdict(FitCode.FITS)

_UNSCHEDULABLE_TAINT: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
_NODE_NAME_FIELD: Final = "metadata.name"


class NodeFit:
    """Applies the filters to one pod and any number of nodes.

    Parameters
    ----------
    nodes
        All nodes of the cluster, for pod affinity and topology spread.
    by_devices
        Names of extended resources that devices provide on nodes that do not offer them.
    devices_follow
        Whether the caller checks these devices; otherwise such a node is undecidable.
    """

    def __init__(
        self,
        pod: Pod,
        nodes: Sequence[NodeState],
        by_devices: frozenset[str] = frozenset(),
        *,
        devices_follow: bool = False,
    ) -> None:
        self.pod = pod
        self._devices_follow = devices_follow
        self._by_devices = frozenset(name for name, wanted in pod.requests.items() if wanted and name in by_devices)
        self._affinity = PodAffinity.of(pod, nodes)
        self._spread = TopologySpread.of(pod, nodes) if pod.spread_constraints else TopologySpread()
        self._selector_terms = pod.required_nodes.valid_terms if pod.required_nodes is not None else ()

    def verdict(self, state: NodeState) -> FilterVerdict:
        """The filters' verdict on a node."""
        for check in (
            self._unschedulable,
            self._node_name,
            self._taints,
            self._node_affinity,
            self._ports,
            self._resources,
            self._not_modelled,
            self._topology_spread,
            self._pod_affinity,
        ):
            refusal = check(state)
            if refusal is not None:
                return refusal
        return FITS

    def needs_devices(self, state: NodeState) -> frozenset[str]:
        """Extended resources of the pod that devices must provide on this node."""
        return frozenset(name for name in self._by_devices if not state.node.allocatable.get(name, 0))

    def _unschedulable(self, state: NodeState) -> FilterVerdict | None:
        if not state.node.is_unschedulable:
            return None
        if any(tolerates(toleration, _UNSCHEDULABLE_TAINT) for toleration in self.pod.tolerations):
            return None
        return _never(Filter.NODE_UNSCHEDULABLE, "node(s) were unschedulable")

    def _node_name(self, state: NodeState) -> FilterVerdict | None:
        if self.pod.node_name in ("", state.node.name):
            return None
        return _never(Filter.NODE_NAME, "node(s) didn't match the requested node name")

    def _taints(self, state: NodeState) -> FilterVerdict | None:
        if blocking_taint(state.node.taints, self.pod.tolerations) is None:
            return None
        return _never(Filter.TAINT_TOLERATION, "node(s) had untolerated taint(s)")

    def _node_affinity(self, state: NodeState) -> FilterVerdict | None:
        node = state.node
        labels_match = all(node.labels.get(key) == value for key, value in self.pod.node_selector.items())
        terms_match = self.pod.required_nodes is None or any(
            term.matches(node.name, node.labels) for term in self._selector_terms
        )
        if labels_match and terms_match:
            return None
        return _never(Filter.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")

    def _ports(self, state: NodeState) -> FilterVerdict | None:
        if not self.pod.host_ports:
            return None
        taken: dict[int, list[HostPort]] = {}
        for port in (port for pod in state.pods for port in pod.host_ports):
            taken.setdefault(port.port, []).append(port)
        if not any(
            wanted.conflicts_with(port) for wanted in self.pod.host_ports for port in taken.get(wanted.port, ())
        ):
            return None
        return _not_now(Filter.NODE_PORTS, "node(s) didn't have free ports for the requested pod ports")

    def _resources(self, state: NodeState) -> FilterVerdict | None:
        reasons = []
        code = FitCode.UNSCHEDULABLE
        if len(state.pods) + 1 > state.allowed_pods():
            reasons.append("Too many pods")
        for name in sorted(self.pod.requests, key=_resource_order):
            wanted = self.pod.requests[name]
            allocatable = state.node.allocatable.get(name, 0)
            if name in self._by_devices and not allocatable:
                continue
            if wanted > 0 and wanted > allocatable - state.requested.get(name, 0):
                reasons.append(f"Insufficient {name}")
                if wanted > allocatable:
                    code = FitCode.UNRESOLVABLE
        return FilterVerdict(code, Filter.NODE_RESOURCES_FIT, tuple(reasons)) if reasons else None

    def _not_modelled(self, state: NodeState) -> FilterVerdict | None:
        parts = [*self.pod.undecidable, *self._affinity.undecidable]
        if not self._devices_follow:
            parts += [f"devices that provide {name}" for name in sorted(self.needs_devices(state))]
        if not parts:
            return None
        reason = f"node(s) about which this scheduler cannot decide: it does not model {', '.join(parts)}"
        return FilterVerdict(FitCode.UNDECIDABLE, Filter.NOT_MODELLED, (reason,))

    def _topology_spread(self, state: NodeState) -> FilterVerdict | None:
        reason = "node(s) didn't match pod topology spread constraints"
        if self._spread.missing_label(state.node.labels):
            return _never(Filter.POD_TOPOLOGY_SPREAD, f"{reason} (missing required label)")
        if not self._spread.is_even(state.node.labels):
            return _not_now(Filter.POD_TOPOLOGY_SPREAD, reason)
        return None

    def _pod_affinity(self, state: NodeState) -> FilterVerdict | None:
        labels, affinity = state.node.labels, self._affinity
        if self.pod.required_affinity and not affinity.satisfies_affinity(labels):
            return _never(Filter.INTER_POD_AFFINITY, "node(s) didn't match pod affinity rules")
        if not affinity.satisfies_anti_affinity(labels):
            return _not_now(Filter.INTER_POD_AFFINITY, "node(s) didn't match pod anti-affinity rules")
        if not affinity.satisfies_existing_anti_affinity(labels):
            return _not_now(Filter.INTER_POD_AFFINITY, "node(s) didn't satisfy existing pods anti-affinity rules")
        return None


def eligible_nodes(pod: Pod) -> frozenset[str] | None:
    """Names of the nodes that a pod's node affinity allows by name; None if it does not name nodes.

    Empty when its requirements contradict each other.
    """
    return named_nodes(pod.required_nodes) if pod.required_nodes is not None and pod.required_nodes.terms else None


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """Names of the nodes that a selector allows by name; None if it does not name nodes."""
    names: frozenset[str] = frozenset()
    for term in selector.terms:
        of_term: frozenset[str] | None = None
        for requirement in term.match_fields:
            if requirement.key == _NODE_NAME_FIELD and requirement.operator == "In":
                values = frozenset(requirement.values)
                of_term = values if of_term is None else of_term & values
        if of_term is None:
            return None
        names |= of_term
    return names


def selects(selector: NodeSelector, state: NodeState) -> bool:
    """Whether a selector of a pod selects a node; malformed terms select no node."""
    return any(term.matches(state.node.name, state.node.labels) for term in selector.valid_terms)


def _resource_order(name: str) -> tuple[int, str]:
    """CPU, memory and ephemeral storage first, then the others by name (the scheduler orders these at random)."""
    known = (CPU, "memory", "ephemeral-storage")
    return (known.index(name), "") if name in known else (len(known), name)


def _never(refusing: Filter, reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNRESOLVABLE, refusing, (reason,))


def _not_now(refusing: Filter, reason: str) -> FilterVerdict:
    return FilterVerdict(FitCode.UNSCHEDULABLE, refusing, (reason,))
