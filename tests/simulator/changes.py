"""Changes that others make to a cluster, in a snapshot of it."""

from __future__ import annotations

from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim, consumer_of
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot


def take_down_node(snapshot: Snapshot, name: str) -> tuple[Pod, ...]:
    """Remove a node with its own slices and all its pods, which are returned."""
    pods = tuple(snapshot.pods[key] for key in snapshot.state.pods_of_node[name])
    with snapshot.all_or_nothing():
        for pod in pods:
            snapshot.remove_pod(ObjectKey.of(pod))
        for item in [each for each in snapshot.slices.values() if each.node_name == name]:
            snapshot.remove(Kind.RESOURCE_SLICE, ObjectKey("", item.name))
        snapshot.remove(Kind.NODE, ObjectKey("", name))
    return pods


def reserve(snapshot: Snapshot, key: ObjectKey, pod: Pod) -> None:
    """Enter a pod among the consumers of a claim; once is enough."""
    tracked = snapshot.claims[key]
    if not tracked.is_reserved_for(pod):
        snapshot.put(tracked.with_consumers((*tracked.consumers, consumer_of(pod))))


def claims_of(snapshot: Snapshot, pod: Pod) -> tuple[TrackedClaim, ...]:
    """The claims that a pod names, in its order, and the one that was made for its extended resources."""
    names = [reference.claim for reference in pod.claims if reference.claim]
    named = [snapshot.claims[ObjectKey(pod.namespace, name)] for name in names]
    made = [snapshot.claims[key] for key in snapshot.state.generated_claims[ObjectKey.of(pod)]]
    return (*named, *(each for each in made if each.is_for_extended_resources and each.belongs_to(pod)))
