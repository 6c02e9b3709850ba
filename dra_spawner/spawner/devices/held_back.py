"""Pods that a scheduling gate keeps from the scheduler, such as those that wait in a queue of Kueue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.spawner.devices.diagnosis import Diagnosis

_HELD_BACK: Final = "Another system of this cluster holds this server back."
_QUEUED: Final = "This cluster starts servers in turn, through a queue."


def gates_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a pod's scheduling gates."""
    return tuple(str(each.get("name")) for each in (pod.get("spec") or {}).get("schedulingGates") or ())


async def why_held_back(api: KubernetesApi, pod: Mapping[str, Any]) -> Diagnosis:
    """Why a pod with gates waits; with its place in the queue, where Kueue tells it.

    Needs the right to get ``localqueues/pendingworkloads`` of Kueue's visibility API; without it the place is left out.
    """
    if not any(gate.startswith(names.KUEUE_PREFIX) for gate in gates_of(pod)):
        return Diagnosis(
            _HELD_BACK, outlook="It starts when that system lets it. Your administrator knows which one it is."
        )
    place = await _place(api, pod)
    before = "" if place is None else "It is the next." if place == 0 else f"Before it: {place}."
    return Diagnosis(_QUEUED, outlook=before)


async def _place(api: KubernetesApi, pod: Mapping[str, Any]) -> int | None:
    """How many are before a pod in its queue; None if that is not known."""
    metadata = pod["metadata"]
    queue = (metadata.get("labels") or {}).get(names.KUEUE_QUEUE)
    if not queue:
        return None
    for version in names.KUEUE_VISIBILITY_APIS:
        path = resource_path(version, "localqueues", metadata["namespace"], queue, "pendingworkloads")
        try:
            found = await api.get(path)
        except KubernetesError as error:
            if error.not_found:
                continue
            return None
        return _place_in(found, metadata["uid"])
    return None


def _place_in(found: object, uid: str) -> int | None:
    """The place of the workload that a pod owns; what another program answers may be anything."""
    items = found.get("items") if isinstance(found, Mapping) else None
    for item in items if isinstance(items, list) else ():
        metadata = item.get("metadata") if isinstance(item, Mapping) else None
        owners = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
        if any(isinstance(each, Mapping) and each.get("uid") == uid for each in owners or ()):
            place = item.get("positionInClusterQueue")
            return place if isinstance(place, int) and place >= 0 else None
    return None
