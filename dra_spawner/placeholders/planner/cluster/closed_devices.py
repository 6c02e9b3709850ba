"""Devices of placeholders that are closed: a taint, of the driver or of a DeviceTaintRule, keeps them from new claims.

A claim that has such a device keeps it, so a handover would give a user a device that the scheduler gives to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dra_spawner.dra.model.claims import ResourceClaim, Toleration
from dra_spawner.dra.model.devices import DeviceId, PoolId, Taint
from dra_spawner.dra.model.taints import blocking_taint
from dra_spawner.placeholders.planner.cluster.cluster_index import ClusterIndex
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.snapshot import Snapshot


def why_closed(index: ClusterIndex, snapshot: Snapshot, claims: Iterable[ObjectKey]) -> str:
    """Why a device of these claims is closed for new claims like them; empty if none is.

    Parameters
    ----------
    index
        Of the snapshot.
    """
    if not index.tainted_slices:
        return ""
    for key in claims:
        tracked = snapshot.claims.get(key)
        for part in (tracked.claim.status.devices or ()) if tracked is not None else ():
            taints = _taints(index, part.id) if not part.admin_access else ()
            if taints and tracked is not None:
                taint = blocking_taint(taints, _tolerations(tracked.claim, part.request))
                if taint is not None:
                    value = f"={taint.value}" if taint.value else ""
                    return f"device {part.id} is closed by the taint {taint.key}{value}:{taint.effect}"
    return ""


def _taints(index: ClusterIndex, device: DeviceId) -> tuple[Taint, ...]:
    slices = index.slices_of_pool.get(PoolId(device.driver, device.pool), ())
    newest = max((item.generation for item in slices), default=0)
    for item in slices:
        if item.generation == newest and item.name in index.tainted_slices:
            for published in item.devices:
                if published.id == device:
                    return published.taints
    return ()


def _tolerations(claim: ResourceClaim, request_name: str) -> Sequence[Toleration]:
    """Tolerations of a request, or of its alternative: ``request`` or ``request/alternative``."""
    name, _, alternative = request_name.partition("/")
    for request in claim.requests:
        if request.name == name:
            for each in (request.exactly,) if request.exactly is not None else request.first_available:
                if each.name == alternative or request.exactly is not None:
                    return each.tolerations
    return ()
