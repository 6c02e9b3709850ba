"""The devices that a server holds, in whole devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dra_spawner import names
from dra_spawner.dra.allocation.allocated_state import AllocatedState
from dra_spawner.dra.model.objects import Node, PoolId, ResourceSlice
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.weighted_utilization import device_uses, used_units


def held_claims(pod: Pod) -> tuple[ObjectKey, ...]:
    """The claims of a pod, also the one for its extended resources; a name is empty until it is known."""
    named = (each.claim or "" for each in pod.claims if each.is_needed)
    extended = (pod.extended_claim,) if pod.extended_claim else ()
    return tuple(dict.fromkeys(ObjectKey(pod.namespace, name) for name in (*named, *extended)))


def held_devices(snapshot: Snapshot, pod: Pod) -> Mapping[str, float] | None:
    """The devices that a pod's claims hold, by driver, weighed as utilization weighs them.

    A device that is allocated whole counts as 1, a share as the fullest of its capacities, and a partition as the
    fullest of the counters that it takes. A device that belongs to no node counts as 1. A claim that several servers
    share is divided among them. Admin access holds nothing.

    Returns
    -------
    Mapping of str to float, or None
        Empty for a pod without claims; None if it is not known: the pod has no node, a claim is not allocated, or a
        pool is incomplete or not published.
    """
    state = snapshot.nodes.get(pod.node_name)
    if state is None:
        return None
    found: dict[str, Fraction] = {}
    for key in held_claims(pod):
        tracked = snapshot.claims.get(key)
        if tracked is None or tracked.claim.status.devices is None:
            return None
        held = [each for each in tracked.claim.status.devices if not each.admin_access]
        allocated = AllocatedState.from_claims((tracked.claim,), snapshot.rules)
        for pool_id in {PoolId(each.id.driver, each.id.pool) for each in held}:
            slices = snapshot.state.devices.slices_of(pool_id)
            number = Fraction(sum(PoolId(each.id.driver, each.id.pool) == pool_id for each in held))
            if not slices:
                return None
            if _is_of_node(slices, state.node.identity):
                uses = device_uses(state.node.identity, slices, allocated, snapshot.rules)
                if not uses:
                    return None
                number, _ = used_units(uses)
            found[pool_id.driver] = found.get(pool_id.driver, Fraction(0)) + number / max(
                _servers(snapshot, tracked), 1
            )
    return {driver: float(held) for driver, held in sorted(found.items())}


def _is_of_node(slices: Sequence[ResourceSlice], node: Node) -> bool:
    return any(
        node.name == item.node_name or any(each.node_name == node.name for each in item.devices) for item in slices
    )


def _servers(snapshot: Snapshot, tracked: TrackedClaim) -> int:
    """Consumers without placeholders: one stays until the server that takes its claim over runs."""
    pods = (snapshot.pods.get(ObjectKey(tracked.claim.namespace, each.name)) for each in tracked.consumers)
    return sum(pod is None or pod.labels.get(names.COMPONENT) != names.PLACEHOLDER for pod in pods)
