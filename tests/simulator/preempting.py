"""kube-scheduler's preemption in a snapshot for a pod that fits nowhere: clear a node of less important pods.

It clears nodes for CPU, memory, ports and number of pods, never for devices (see
:mod:`~dra_spawner.simulator.scheduler.scheduler_preemption`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.simulator.claim_requirements import claim_requirements
from dra_spawner.simulator.fitting import PodFit
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import FilterVerdict
from dra_spawner.simulator.scheduler.scheduler_preemption import SchedulerPreemption, resolve
from dra_spawner.simulator.scheduler.scheduling import ClusterView, SchedulingAttempt, SchedulingQuestion, Unschedulable
from dra_spawner.simulator.snapshot import Snapshot
from tests.simulator.changes import reserve

__all__ = ["cluster_view", "place_by_preemption"]

T = TypeVar("T")


def cluster_view(snapshot: Snapshot) -> ClusterView:
    """The snapshot as one attempt to place a pod sees it; invalid after a change of the snapshot."""
    state = snapshot.state
    return ClusterView(
        nodes=[snapshot.nodes[name] for name in sorted(snapshot.nodes)],
        slices=SliceIndex(state.devices.in_order()[0]),
        classes=snapshot.classes,
        allocated=state.devices.allocated,
        nominated={name: [snapshot.pods[key] for key in state.nominated[name]] for name in state.nominated},
    )


def _find_preemption(snapshot: Snapshot, pod: Pod) -> SchedulerPreemption | None:
    """The node that kube-scheduler would clear for a pod, and the victims; None without a useful preemption."""
    requirements = claim_requirements(pod, snapshot.state)
    if isinstance(requirements, FilterVerdict):
        return None
    attempt = SchedulingAttempt(
        cluster_view(snapshot),
        SchedulingQuestion(pod, tuple(requirement.claim for requirement in requirements)),
        _first,
    )
    decision = attempt.decide()
    return resolve(attempt, decision, _first).preemption if isinstance(decision, Unschedulable) else None


def place_by_preemption(snapshot: Snapshot, pod: Pod) -> tuple[str, tuple[Pod, ...]] | PodFit:
    """Place a pod; less important pods are preempted if necessary, and removed.

    Returns
    -------
    tuple or PodFit
        The node and the pods that had to go; or why the pod fits nowhere, and nothing has changed.
    """
    where = snapshot.place(pod)
    if isinstance(where, str):
        return where, ()
    found = _find_preemption(snapshot, pod)
    if found is None:
        return where
    snapshot.fork()
    for reference in pod.claims:
        # A claim that it shares with a victim is not released in between.
        key = ObjectKey(pod.namespace, reference.claim or "")
        if key in snapshot.claims and snapshot.claims[key].claim.is_allocated:
            reserve(snapshot, key, pod)
    for victim in found.victims:
        snapshot.remove_pod(ObjectKey.of(victim))
    if snapshot.schedule(pod, found.node_name).fits:
        snapshot.commit()
        return found.node_name, found.victims
    snapshot.revert()
    return where


def _first(candidates: Sequence[T]) -> T:
    return candidates[0]
