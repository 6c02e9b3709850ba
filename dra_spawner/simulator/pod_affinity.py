"""Whether a pod may be beside the pods that are there already, and how much it would like to.

A pod affinity speaks of *topologies*: sets of nodes with the same value of a label, say one rack. Which of them hold
pods of interest is counted once for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_spawner.simulator.nodes import NodeState
from dra_spawner.simulator.pods import Pod, PodAffinityTerm

__all__ = ["PodAffinity"]

_Topology = tuple[str, str]
"""Key and value of a label."""

# How much a pod's required affinity attracts those that it would like to have beside it (hardPodAffinityWeight).
_REQUIRED_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """Affinity and anti-affinity of one pod and of the running pods, for all nodes.

    Attributes
    ----------
    undecidable
        Terms that are not modelled and might matter; empty if none.
    """

    pod: Pod
    undecidable: tuple[str, ...]
    _wanted: Mapping[_Topology, int]
    _avoided: Mapping[_Topology, int]
    _avoiding: Mapping[_Topology, int]

    @classmethod
    def of(cls, pod: Pod, nodes: Iterable[NodeState]) -> PodAffinity:
        """Count the pods that its affinity terms select, and the pods whose terms select it."""
        wanted: dict[_Topology, int] = {}
        avoided: dict[_Topology, int] = {}
        avoiding: dict[_Topology, int] = {}
        undecidable = [*_unmodelled(pod.required_affinity), *_unmodelled(pod.required_anti_affinity)]
        speaks_of_others = bool(pod.required_affinity or pod.required_anti_affinity)
        for state in nodes:
            for other in state.pods:
                if speaks_of_others:
                    if pod.required_affinity and all(term.matches(other) for term in pod.required_affinity):
                        _count(wanted, state, pod.required_affinity)
                    _count(avoided, state, (term for term in pod.required_anti_affinity if term.matches(other)))
                for term in other.required_anti_affinity:
                    if term.matches(pod):
                        undecidable += _unmodelled((term,))
                        _count(avoiding, state, (term,))
        return cls(pod, tuple(dict.fromkeys(undecidable)), wanted, avoided, avoiding)

    def has_company(self, labels: Mapping[str, str]) -> bool:
        """Whether the pods it must be near to are near to a node with these labels."""
        if any(term.topology_key not in labels for term in self.pod.required_affinity):
            return False
        near = all(
            self._wanted.get((term.topology_key, labels[term.topology_key]), 0) for term in self.pod.required_affinity
        )
        # The first of a series of pods that want to be near to one another has to start somewhere.
        return near or (not self._wanted and all(term.matches(self.pod) for term in self.pod.required_affinity))

    def is_undisturbed(self, labels: Mapping[str, str]) -> bool:
        """Whether no pod that it must be away from is near to a node with these labels."""
        return not any(
            self._avoided.get((term.topology_key, labels.get(term.topology_key, "")), 0)
            for term in self.pod.required_anti_affinity
            if term.topology_key in labels
        )

    def disturbs_nobody(self, labels: Mapping[str, str]) -> bool:
        """Whether no pod that must be away from it is near to a node with these labels."""
        return not self._avoiding or not any(self._avoiding.get(label, 0) for label in labels.items())


def preference(pod: Pod, nodes: Sequence[NodeState], candidates: Sequence[NodeState]) -> list[int] | None:
    """How much the pod and its neighbours to be would like each candidate; None if no pod prefers anything.

    Preferences that are not modelled count for nothing.
    """
    scores: dict[_Topology, int] = {}
    has_preferences = bool(pod.preferred_affinity or pod.preferred_anti_affinity)
    touched = False
    for state in nodes:
        for other in state.pods:
            if not has_preferences and not other.has_pod_affinity:
                continue
            terms = [
                *((term, term.weight, other) for term in pod.preferred_affinity),
                *((term, -term.weight, other) for term in pod.preferred_anti_affinity),
                *((term, _REQUIRED_WEIGHT, pod) for term in other.required_affinity),
                *((term, term.weight, pod) for term in other.preferred_affinity),
                *((term, -term.weight, pod) for term in other.preferred_anti_affinity),
            ]
            for term, weight, meant in terms:
                value = state.node.labels.get(term.topology_key)
                if value is not None and not term.unmodelled and term.matches(meant):
                    topology = (term.topology_key, value)
                    scores[topology] = scores.get(topology, 0) + weight
                    touched = True
    if not touched:
        return None
    return [sum(scores.get(label, 0) for label in state.node.labels.items()) for state in candidates]


def _unmodelled(terms: Iterable[PodAffinityTerm]) -> list[str]:
    return [f"{field} of a pod affinity term" for term in terms for field in term.unmodelled]


def _count(counts: dict[_Topology, int], state: NodeState, terms: Iterable[PodAffinityTerm]) -> None:
    for term in terms:
        value = state.node.labels.get(term.topology_key)
        if value is not None:
            topology = (term.topology_key, value)
            counts[topology] = counts.get(topology, 0) + 1
