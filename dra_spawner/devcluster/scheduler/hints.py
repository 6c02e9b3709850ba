"""Queueing hints: a refused pod is tried again when the inputs of the refusing filter change."""

from __future__ import annotations

from dataclasses import dataclass

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.resource_types import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
)
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.dra.model.extended_resources import EXTENDED_RESOURCE_ANNOTATION
from dra_spawner.simulator.scheduler.node_fit import Filter

__all__ = ["HelpedPods", "helped_by", "pod_changed_itself"]

_FREED_BY_PODS = frozenset({Filter.NODE_RESOURCES_FIT, Filter.NODE_PORTS, Filter.INTER_POD_AFFINITY})
_DEVICES = frozenset({Filter.DYNAMIC_RESOURCES, Filter.NOT_MODELLED})


@dataclass(frozen=True, slots=True)
class HelpedPods:
    """Pods that a change may help."""

    filters: frozenset[Filter] = frozenset()
    """Filters: the change may help pods that one of them refused."""
    all_pods: bool = False
    """Whether the change may help all pods."""
    claim: tuple[str, str] | None = None
    """Namespace and name of a claim: the change may help pods that use it."""


def helped_by(event: WatchEvent) -> HelpedPods:
    """The pods that a change of the store may help."""
    gone = event.type is WatchEventType.DELETED
    if event.resource_type is NODES:
        if event.previous is None:
            return HelpedPods(all_pods=True)
        return HelpedPods() if gone else HelpedPods(_node_changes(event.previous, event.object))
    if event.resource_type is PODS:
        return HelpedPods(_pod_changes(event.previous, None if gone else event.object))
    if event.resource_type is RESOURCECLAIMS:
        return _claim_changes(event)
    if event.resource_type is DEVICETAINTRULES:
        # For the scheduler it is the slice that changes.
        return HelpedPods(_DEVICES)
    if gone:
        return HelpedPods()
    if event.resource_type is RESOURCESLICES:
        return HelpedPods(_DEVICES)
    if event.resource_type is DEVICECLASSES:
        # Its devices may provide a resource that no node has.
        return HelpedPods(_DEVICES | {Filter.NODE_RESOURCES_FIT})
    if event.resource_type is PERSISTENTVOLUMECLAIMS:
        return HelpedPods(frozenset({Filter.VOLUME_BINDING}))
    return HelpedPods()


def pod_changed_itself(before: JsonObject, after: JsonObject) -> bool:
    """Whether a pending pod's own change may help it; the scheduler's writes do not count."""
    return _requirements(before) != _requirements(after)


def _requirements(pod: JsonObject) -> tuple[object, ...]:
    metadata, status = pod["metadata"], pod.get("status", {})
    marks = metadata.get("labels"), metadata.get("deletionTimestamp")
    return pod["spec"], *marks, status.get("resourceClaimStatuses")


def _node_changes(before: JsonObject, after: JsonObject) -> frozenset[Filter]:
    helped: set[Filter] = set()
    if before["metadata"].get("labels") != after["metadata"].get("labels"):
        helped |= {Filter.NODE_AFFINITY, Filter.INTER_POD_AFFINITY, *_DEVICES}
    if before["spec"].get("taints") != after["spec"].get("taints"):
        helped.add(Filter.TAINT_TOLERATION)
    if before["spec"].get("unschedulable") != after["spec"].get("unschedulable"):
        helped.add(Filter.NODE_UNSCHEDULABLE)
    if before.get("status", {}).get("allocatable") != after.get("status", {}).get("allocatable"):
        helped |= {Filter.NODE_RESOURCES_FIT, *_DEVICES}
    return frozenset(helped)


def _pod_changes(before: JsonObject | None, after: JsonObject | None) -> frozenset[Filter]:
    """Filters that may decide otherwise after a change of a pod."""
    had, has = _is_placed(before), _is_placed(after)
    if had and not has:
        return _FREED_BY_PODS
    if has and (not had or _labels(before) != _labels(after)):
        return frozenset({Filter.INTER_POD_AFFINITY})
    return frozenset()


def _claim_changes(event: WatchEvent) -> HelpedPods:
    before, after = event.previous, event.object
    name = (after["metadata"]["namespace"], after["metadata"]["name"])
    was_allocated = before is not None and "allocation" in before.get("status", {})
    if event.type is WatchEventType.DELETED:
        # A pod with extended resources may wait for the deletion of its leftover claim.
        is_special = (after["metadata"].get("annotations") or {}).get(EXTENDED_RESOURCE_ANNOTATION) == "true"
        return HelpedPods(_DEVICES if was_allocated or is_special else frozenset(), claim=name)
    if was_allocated and "allocation" not in after.get("status", {}):
        return HelpedPods(_DEVICES, claim=name)
    unchanged = before is not None and before.get("status") == after.get("status")
    deletion_asked = after["metadata"].get("deletionTimestamp")
    return HelpedPods(claim=None if unchanged and not deletion_asked else name)


def _is_placed(pod: JsonObject | None) -> bool:
    if pod is None or not (pod["spec"].get("nodeName") or pod.get("status", {}).get("nominatedNodeName")):
        return False
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _labels(pod: JsonObject | None) -> object:
    return pod["metadata"].get("labels") if pod is not None else None
