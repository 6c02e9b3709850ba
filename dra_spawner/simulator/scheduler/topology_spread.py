"""Pods that must be spread evenly: ``topologySpreadConstraints`` with ``DoNotSchedule``.

A constraint is about *domains*, sets of nodes with the same value of a label, and the matching pods in each. A pod may
run in a domain that then has at most ``maxSkew`` more matching pods than the domain with the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_spawner.dra.model.node_selector import Requirement
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod, SpreadConstraint


@dataclass(frozen=True, slots=True)
class _Domains:
    constraint: SpreadConstraint
    counts: Mapping[str, int]
    """Matching pods by the label's value."""
    fewest: int
    """Fewest matching pods of any domain; 0 with fewer domains than ``minDomains``."""
    own: int
    """1 if the pod to be placed matches; else 0."""


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """The constraints of one pod, counted over all nodes (kube-scheduler's plugin PodTopologySpread)."""

    _domains: tuple[_Domains, ...] = ()

    @classmethod
    def of(cls, pod: Pod, nodes: Sequence[NodeState]) -> TopologySpread:
        """Count the pods that match the constraints of `pod`."""
        constraints = pod.spread_constraints
        keys = [constraint.topology_key for constraint in constraints]
        eligible = [state for state in nodes if all(key in state.node.labels for key in keys)] if keys else []
        return cls(tuple(_count(pod, constraint, eligible) for constraint in constraints))

    def missing_label(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels lacks the label of a constraint."""
        return any(domains.constraint.topology_key not in labels for domains in self._domains)

    def is_even(self, labels: Mapping[str, str]) -> bool:
        """Whether the pod may run on a node with these labels; the node must have the labels of all constraints."""
        return all(
            domains.counts.get(labels[domains.constraint.topology_key], 0) + domains.own - domains.fewest
            <= domains.constraint.max_skew
            for domains in self._domains
        )


def _count(pod: Pod, constraint: SpreadConstraint, nodes: Sequence[NodeState]) -> _Domains:
    counts: dict[str, int] = {}
    for state in nodes:
        if _counts_node(pod, constraint, state.node):
            value = state.node.labels[constraint.topology_key]
            matching = sum(
                _counts_pod(constraint.labels, other)
                for other in state.pods
                if other.namespace == pod.namespace and not other.is_deleted
            )
            counts[value] = counts.get(value, 0) + matching
    fewest = min(counts.values()) if len(counts) >= constraint.min_domains and counts else 0
    own = constraint.labels is not None and all(item.matches_labels(pod.labels) for item in constraint.labels)
    return _Domains(constraint, counts, fewest, int(own))


def _counts_node(pod: Pod, constraint: SpreadConstraint, node: SchedulableNode) -> bool:
    """Whether a node counts for a domain: the constraint may exclude nodes that the pod cannot use anyway."""
    if constraint.honors_node_affinity and not pod.selects_node(node.name, node.labels):
        return False
    return not constraint.honors_taints or blocking_taint(node.taints, pod.tolerations) is None


def _counts_pod(labels: Sequence[Requirement] | None, other: Pod) -> bool:
    # As in kube-scheduler, an empty selector counts no pod.
    return bool(labels) and all(requirement.matches_labels(other.labels) for requirement in labels or ())
