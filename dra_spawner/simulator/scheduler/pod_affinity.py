"""Required and preferred pod affinity and anti-affinity (kube-scheduler's plugin InterPodAffinity).

A pod affinity is about *topologies*: sets of nodes with the same value of a label, for example one rack. The matching
pods of each topology are counted once for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod, PodAffinityTerm

_Topology = tuple[str, str]
"""Key and value of a label."""

# Weight of a running pod's required affinity for scores of the pods that it selects (hardPodAffinityWeight).
_REQUIRED_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """Affinity and anti-affinity of one pod and of the running pods, for all nodes.

    Attributes
    ----------
    undecidable
        Fields of terms that are not modelled but may change the verdict; empty if there are none.
    """

    pod: Pod
    undecidable: tuple[str, ...]
    _affinity_counts: Mapping[_Topology, int]
    _anti_affinity_counts: Mapping[_Topology, int]
    _existing_anti_affinity_counts: Mapping[_Topology, int]

    @classmethod
    def of(cls, pod: Pod, nodes: Iterable[NodeState]) -> PodAffinity:
        """Count the pods that its affinity terms select, and the pods whose terms select it."""
        wanted: dict[_Topology, int] = {}
        avoided: dict[_Topology, int] = {}
        avoiding: dict[_Topology, int] = {}
        undecidable = [*_unmodelled(pod.required_affinity), *_unmodelled(pod.required_anti_affinity)]
        has_terms = bool(pod.required_affinity or pod.required_anti_affinity)
        for state in nodes:
            for other in state.pods:
                if has_terms:
                    if pod.required_affinity and all(term.matches(other) for term in pod.required_affinity):
                        _count(wanted, state, pod.required_affinity)
                    _count(avoided, state, (term for term in pod.required_anti_affinity if term.matches(other)))
                for term in other.required_anti_affinity:
                    if term.matches(pod):
                        undecidable += _unmodelled((term,))
                        _count(avoiding, state, (term,))
        return cls(pod, tuple(dict.fromkeys(undecidable)), wanted, avoided, avoiding)

    def satisfies_affinity(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels satisfies the pod's required affinity."""
        if any(term.topology_key not in labels for term in self.pod.required_affinity):
            return False
        near = all(
            self._affinity_counts.get((term.topology_key, labels[term.topology_key]), 0)
            for term in self.pod.required_affinity
        )
        # The first of several pods that select one another may run anywhere.
        return near or (
            not self._affinity_counts and all(term.matches(self.pod) for term in self.pod.required_affinity)
        )

    def satisfies_anti_affinity(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels satisfies the pod's required anti-affinity."""
        return not any(
            self._anti_affinity_counts.get((term.topology_key, labels.get(term.topology_key, "")), 0)
            for term in self.pod.required_anti_affinity
            if term.topology_key in labels
        )

    def satisfies_existing_anti_affinity(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels satisfies the required anti-affinity of running pods."""
        return not self._existing_anti_affinity_counts or not any(
            self._existing_anti_affinity_counts.get(label, 0) for label in labels.items()
        )


def preference(pod: Pod, nodes: Sequence[NodeState], candidates: Sequence[NodeState]) -> list[int] | None:
    """Score of each candidate by preferences of the pod and of running pods; None if no preference applies.

    Preferences that are not modelled do not count.
    """
    scores: dict[_Topology, int] = {}
    has_preferences = bool(pod.preferred_affinity or pod.preferred_anti_affinity)
    applies = False
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
            for term, weight, selected in terms:
                value = state.node.labels.get(term.topology_key)
                if value is not None and not term.unmodelled and term.matches(selected):
                    topology = (term.topology_key, value)
                    scores[topology] = scores.get(topology, 0) + weight
                    applies = True
    if not applies:
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
