"""Doubts about the devices of nodes, each remembered until an object changes that it follows from."""

from __future__ import annotations

from collections.abc import Iterable

from dra_spawner.dra.model.objects import PoolId
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.usage.device_doubts import NO_DOUBTS, DeviceDoubts, find_doubts


def doubts_of(index: ClusterIndex, snapshot: Snapshot, name: str) -> DeviceDoubts:
    """Doubts about the devices of a node, by the claims of its pods.

    Parameters
    ----------
    index
        Of the snapshot.
    """
    state = snapshot.nodes.get(name)
    if state is None or not (index.slices_of_node.get(name) or any(pod.claims for pod in state.pods)):
        return NO_DOUBTS

    def compute() -> tuple[DeviceDoubts, list[ObjectKey | PoolId]]:
        keys = {ObjectKey(pod.namespace, each.claim) for pod in state.pods for each in pod.claims if each.claim}
        claims = [(key, snapshot.claims[key].claim) for key in sorted(keys) if key in snapshot.claims]
        held = [(str(key), part) for key, claim in claims for part in claim.status.devices or ()]
        own = {item.pool_id for item in index.slices_of_node.get(name, ())}
        pools = own | {PoolId(part.id.driver, part.id.pool) for _, part in held}
        # A pool of several nodes is no node's own. One without slices was.
        slices = {each: index.slices_of_pool.get(each, ()) for each in pools if each in own}
        here = [
            (claim, part)
            for claim, part in held
            if (pool := PoolId(part.id.driver, part.id.pool)) in own or pool not in index.slices_of_pool
        ]
        return find_doubts(name, slices, here), [*keys, *pools]

    return index.doubts.of(name, (state,), compute)


def is_held_in_doubt(doubts: DeviceDoubts, snapshot: Snapshot, pod: Pod, claims: Iterable[ObjectKey]) -> bool:
    """Whether a server that gets a pod's claims may not get their devices.

    Parameters
    ----------
    doubts
        About the devices of the pod's node.
    """
    if not (doubts and pod.claims and pod.node_name):
        return False
    found = (snapshot.claims[key].claim for key in claims if key in snapshot.claims)
    return any(doubts.because(part.id) for claim in found for part in claim.status.devices or ())


def why_in_doubt(doubts: DeviceDoubts, snapshot: Snapshot, pod: Pod, name: str) -> str:
    """Why a pod may not get the devices that the scheduler would give it on a node; empty if it surely gets them."""
    if not doubts:
        return ""
    answer = snapshot.fits_on(pod, name, explain=False)
    devices = (result.id for _, allocation in answer.allocations for result in allocation.results)
    return next((why for device in devices if (why := doubts.because(device))), "")
