"""What scheduler and claim controller do with claims: allocate, reserve, and take back when nobody uses them."""

from __future__ import annotations

from dataclasses import replace

from dra_spawner.dra.allocator import AllocationError, DoesNotFit
from dra_spawner.dra.objects import ConsumerReference
from dra_spawner.simulator.claim_requirements import wishes_of
from dra_spawner.simulator.claims import MAX_CONSUMERS, ObjectKey, TrackedClaim, allocated_devices, consumer_of
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.fitting import Fitting, NodeAnswer
from dra_spawner.simulator.node_fit import NodeVerdict
from dra_spawner.simulator.pods import Pod
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem, find

__all__ = ["allocate", "bind", "deallocate", "release_idle", "reserve", "settle", "unreserve"]

_PODS = "pods"


def allocate(state: ClusterState, key: ObjectKey, node_name: str) -> None:
    """Give a claim devices that can be used on a node."""
    tracked = find(state.claims, key, "claim")
    find(state.nodes, node_name, "node")
    if tracked.claim.is_allocated:
        raise SnapshotError(SnapshotProblem.ALLOCATED, f"claim {key} is allocated already")
    try:
        found = state.devices.allocate(node_name, (tracked.claim,), explain=True)
    except AllocationError as error:
        raise SnapshotError(SnapshotProblem.DOES_NOT_FIT, str(error)) from None
    if isinstance(found, DoesNotFit):
        raise SnapshotError(SnapshotProblem.DOES_NOT_FIT, f"claim {key} on node {node_name}: {found}")
    state.put_claim(tracked.allocated(allocated_devices(found[0], tracked.claim), found[0].node_selector))


def deallocate(state: ClusterState, key: ObjectKey) -> None:
    """Take a claim's devices and consumers away."""
    state.put_claim(_allocated_claim(state, key).deallocated())


def reserve(state: ClusterState, key: ObjectKey, pod: Pod) -> None:
    """Enter a pod among the consumers of an allocated claim, unless it is there."""
    tracked = _allocated_claim(state, key)
    if tracked.is_reserved_for(pod):
        return
    if len(tracked.consumers) >= MAX_CONSUMERS:
        raise SnapshotError(SnapshotProblem.TOO_MANY_CONSUMERS, f"claim {key} has {MAX_CONSUMERS} consumers already")
    state.put_claim(tracked.with_consumers((*tracked.consumers, consumer_of(pod))))


def unreserve(state: ClusterState, key: ObjectKey, pod: Pod) -> None:
    """Strike a pod off the consumers of a claim."""
    tracked = find(state.claims, key, "claim")
    if tracked.is_reserved_for(pod):
        consumer = consumer_of(pod)
        state.put_consumers(key, [each for each in tracked.consumers if each != consumer])


def bind(state: ClusterState, fitting: Fitting, node_name: str, answer: NodeAnswer) -> None:
    """Carry a placement out: make, allocate and reserve the pod's claims, and give it its place."""
    pod = fitting.pod
    for tracked, allocation in answer.allocations:
        devices = allocated_devices(allocation, tracked.claim)
        state.put_claim(tracked.allocated(devices, allocation.node_selector))
        reserve(state, tracked.key, pod)
    names = {wish.entry: wish.claim.name for wish in fitting.wishes}
    for wish in fitting.wishes:
        reserve(state, wish.tracked.key, pod)
    claims = tuple(
        replace(reference, claim=names[reference.name]) if reference.name in names else reference
        for reference in pod.claims
    )
    requests = answer.requests if answer.requests is not None else pod.requests
    state.put_pod(replace(pod, node_name=node_name, nominated_node_name="", claims=claims, requests=requests))


def release_idle(state: ClusterState, pod: Pod) -> tuple[ObjectKey, ...]:
    """Deallocate the pod's claims that nobody else uses."""
    known = state.pods.get(ObjectKey.of(pod))
    wishes = wishes_of(pod, state)
    if isinstance(wishes, NodeVerdict) or (known is not None and known.node_name):
        return ()
    others = (wish.tracked for wish in wishes if wish.claim.is_allocated)
    idle = tuple(tracked.key for tracked in others if set(tracked.consumers) <= {consumer_of(pod)})
    for key in idle:
        deallocate(state, key)
    return idle


def settle(state: ClusterState) -> None:
    """Strike off consumers that are gone or have ended, with what follows from that."""
    for key, tracked in sorted(state.claims.items()):
        left = [each for each in tracked.consumers if not _is_gone(state, key.namespace, each)]
        if len(left) < len(tracked.consumers):
            state.put_consumers(key, left)
        owner = ConsumerReference(_PODS, tracked.owner, tracked.owner_uid)
        if tracked.owner and not left and key in state.claims and _is_gone(state, key.namespace, owner):
            state.remove_claim(key)


def _allocated_claim(state: ClusterState, key: ObjectKey) -> TrackedClaim:
    tracked = find(state.claims, key, "claim")
    if not tracked.claim.is_allocated:
        raise SnapshotError(SnapshotProblem.NOT_ALLOCATED, f"claim {key} is not allocated")
    return tracked


def _is_gone(state: ClusterState, namespace: str, consumer: ConsumerReference) -> bool:
    """Whether a pod is not there any more, has ended, or was deleted before it ran."""
    if consumer.resource != _PODS:
        return False
    key = ObjectKey(namespace, consumer.name)
    pod = state.pods.get(key)
    if pod is None:
        return (Kind.POD, key) not in state.broken
    return pod.uid != consumer.uid or pod.is_finished or (pod.is_deleted and not pod.node_name)
