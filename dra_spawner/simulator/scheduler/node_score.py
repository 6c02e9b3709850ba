"""Scores of fitting nodes, as kube-scheduler 1.36 in its default configuration.

Each scoring plugin gives every node 0 to 100 points, multiplied by the plugin's weight. The spreading of pods by
Services and ReplicaSets is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dra_spawner.dra.model.taints import tolerates
from dra_spawner.simulator.model.nodes import NodeState
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.resources import CPU, MEMORY
from dra_spawner.simulator.scheduler.node_fit import selects
from dra_spawner.simulator.scheduler.pod_affinity import preference

MAX_NODE_SCORE: Final = 100
_TAINTS_WEIGHT: Final = 3
_NODE_AFFINITY_WEIGHT: Final = 2
_POD_AFFINITY_WEIGHT: Final = 2
_DEVICES_WEIGHT: Final = 2

_SCORED_RESOURCES: Final = (CPU, MEMORY)
_MEBIBYTE: Final = 2**20
_SMALL_IMAGES: Final = 23 * _MEBIBYTE
_LARGE_IMAGE: Final = 1000 * _MEBIBYTE


def best_nodes(
    pod: Pod, nodes: Sequence[NodeState], candidates: Sequence[NodeState], device_scores: Mapping[str, int]
) -> list[NodeState]:
    """The candidates with the highest score; kube-scheduler picks one of them at random."""
    if len(candidates) < 2:
        return list(candidates)
    scores = score_nodes(pod, nodes, candidates, device_scores)
    most = max(scores)
    return [state for state, score in zip(candidates, scores, strict=True) if score == most]


def score_nodes(
    pod: Pod, nodes: Sequence[NodeState], candidates: Sequence[NodeState], device_scores: Mapping[str, int]
) -> list[int]:
    """Points of each candidate.

    Parameters
    ----------
    candidates
        Nodes on which the pod fits.
    device_scores
        Score of the alternatives for the pod's claims, by node name; 0 by default.
    """
    totals = [
        _least_allocated(pod, state) + _balanced_allocation(pod, state) + _image_locality(pod, state, nodes)
        for state in candidates
    ]
    taints = [_intolerable_taints(pod, state) for state in candidates]
    affinity = [_preferred(pod, state) for state in candidates]
    devices = [device_scores.get(state.node.name, 0) for state in candidates]
    weighted = [
        (_TAINTS_WEIGHT, [MAX_NODE_SCORE - points for points in _normalized(taints)]),
        (_NODE_AFFINITY_WEIGHT, _normalized(affinity)),
        (_DEVICES_WEIGHT, _normalized(devices)),
    ]
    pod_affinity = preference(pod, nodes, candidates)
    if pod_affinity is not None:
        weighted.append((_POD_AFFINITY_WEIGHT, _scaled_to_range(pod_affinity)))
    for weight, points in weighted:
        totals = [total + weight * each for total, each in zip(totals, points, strict=True)]
    return totals


def _normalized(counts: Sequence[int]) -> list[int]:
    """Counts scaled so that the highest gets all points."""
    highest = max(counts)
    return [MAX_NODE_SCORE * count // highest if highest else 0 for count in counts]


def _scaled_to_range(counts: Sequence[int]) -> list[int]:
    """Counts scaled so that the lowest gets no points and the highest all."""
    lowest, highest = min(counts), max(counts)
    return [
        int(MAX_NODE_SCORE * ((count - lowest) / (highest - lowest))) if highest > lowest else 0 for count in counts
    ]


def _preferred(pod: Pod, state: NodeState) -> int:
    return sum(term.weight for term in pod.preferred_nodes if selects(term.selector, state))


def _intolerable_taints(pod: Pod, state: NodeState) -> int:
    """Number of untolerated PreferNoSchedule taints."""
    tolerations = [each for each in pod.tolerations if each.effect in ("", "PreferNoSchedule")]
    return sum(
        taint.effect == "PreferNoSchedule" and not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in state.node.taints
    )


def _least_allocated(pod: Pod, state: NodeState) -> int:
    points, resources = 0, 0
    for name in _SCORED_RESOURCES:
        allocatable = state.node.allocatable.get(name, 0)
        if allocatable:
            requested = state.scoring_requested.get(name, 0) + pod.scoring_requests.get(name, 0)
            points += (allocatable - requested) * MAX_NODE_SCORE // allocatable if requested <= allocatable else 0
            resources += 1
    return points // resources if resources else 0


def _balanced_allocation(pod: Pod, state: NodeState) -> int:
    """Points for balance: higher if the pod makes the use of CPU and memory more even."""
    if not any(pod.requests.get(name, 0) for name in _SCORED_RESOURCES):
        return 0
    before = _evenness(state, {})
    after = _evenness(state, pod.requests)
    return MAX_NODE_SCORE // 2 + int((MAX_NODE_SCORE // 2 + after - before) / 2)


def _evenness(state: NodeState, more: Mapping[str, int]) -> int:
    fractions = []
    for name in _SCORED_RESOURCES:
        allocatable = state.node.allocatable.get(name, 0)
        if allocatable:
            fractions.append(min(1.0, (state.requested.get(name, 0) + more.get(name, 0)) / allocatable))
    deviation = abs(fractions[0] - fractions[1]) / 2 if len(fractions) == 2 else 0.0
    return int((1 - deviation) * MAX_NODE_SCORE)


def _image_locality(pod: Pod, state: NodeState, nodes: Sequence[NodeState]) -> int:
    """Points for images: higher if the node has large images of the pod, unless few nodes have them."""
    total = 0
    for image in pod.images:
        name = _normalized_image(image)
        size = state.node.images.get(name)
        if size is not None:
            spread = sum(name in other.node.images for other in nodes) / len(nodes)
            total += int(size * spread)
    most = _LARGE_IMAGE * max(len(pod.images), 1)
    return MAX_NODE_SCORE * (min(max(total, _SMALL_IMAGES), most) - _SMALL_IMAGES) // (most - _SMALL_IMAGES)


def _normalized_image(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
