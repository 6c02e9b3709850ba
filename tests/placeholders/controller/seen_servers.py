"""What a snapshot shows of a server. Pods and claims have a watch each, and either may be behind the other."""

from __future__ import annotations

from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.snapshot import Snapshot

__all__ = ["claims_of", "has_devices"]


def claims_of(snapshot: Snapshot, key: ObjectKey) -> list[TrackedClaim] | None:
    """Return the claims of a pod; None until pod and all its claims are there."""
    pod = snapshot.pods.get(key)
    if pod is None:
        return None
    wanted = [ObjectKey(key.namespace, each.claim or "") for each in pod.claims if each.is_needed]
    found = [snapshot.claims[each] for each in wanted if each in snapshot.claims]
    return found if len(found) == len(wanted) else None


def has_devices(snapshot: Snapshot, key: ObjectKey) -> bool:
    """Whether a pod has a node, and is a consumer of all its claims."""
    claims = claims_of(snapshot, key)
    if claims is None:
        return False
    pod = snapshot.pods[key]
    return bool(pod.node_name) and all(pod.uid in {each.uid for each in claim.consumers} for claim in claims)
