"""Adds, replaces and removes objects of any kind."""

from __future__ import annotations

from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, ResourceSlice
from dra_spawner.simulator.cluster_state import ClusterState
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.model.cluster_objects import BrokenObject, ClusterObject, Kind
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem

__all__ = ["put_object", "remove_object"]


def put_object(state: ClusterState, item: ClusterObject | BrokenObject, *, mirrored: bool = False) -> None:
    """Add an object, or replace the one of its kind and name; `mirrored` as in `ClusterState.put_pod`."""
    match item:
        case BrokenObject():
            _put_broken(state, item)
            return
        case SchedulableNode():
            state.put_node(item)
            kind, key = Kind.NODE, ObjectKey("", item.name)
        case Pod():
            state.put_pod(item, mirrored=mirrored)
            kind, key = Kind.POD, ObjectKey.of(item)
        case TrackedClaim():
            state.put_claim(item)
            kind, key = Kind.RESOURCE_CLAIM, item.key
        case ClaimTemplate():
            state.put_template(item)
            kind, key = Kind.RESOURCE_CLAIM_TEMPLATE, ObjectKey(item.namespace, item.name)
        case DeviceClass():
            state.put_class(item)
            kind, key = Kind.DEVICE_CLASS, ObjectKey("", item.name)
        case ResourceSlice():
            state.put_slice(item)
            kind, key = Kind.RESOURCE_SLICE, ObjectKey("", item.name)
        case DeviceTaintRule():
            state.put_rule(item)
            kind, key = Kind.DEVICE_TAINT_RULE, ObjectKey("", item.name)
    state.broken.discard((kind, key))


def remove_object(state: ClusterState, kind: Kind, key: ObjectKey, *, mirrored: bool = False) -> None:
    """Remove an object, valid or not. Raises :class:`SnapshotError` when there is none."""
    was_broken = state.broken.discard((kind, key)) is not None
    if _is_known(state, kind, key):
        _remove(state, kind, key, mirrored=mirrored)
    elif not was_broken:
        raise SnapshotError(SnapshotProblem.NOT_FOUND, f"{kind} {key} not found")


def _put_broken(state: ClusterState, broken: BrokenObject) -> None:
    """Store an invalid object. The devices of a claim, and the last valid version of a pod, still count."""
    kind, key = broken.kind, broken.key
    if broken.held is not None:
        state.put_claim(broken.held)
    elif kind not in (Kind.POD, Kind.RESOURCE_CLAIM) and _is_known(state, kind, key):
        _remove(state, kind, key)
    state.put_broken(broken)


def _is_known(state: ClusterState, kind: Kind, key: ObjectKey) -> bool:
    match kind:
        case Kind.NODE:
            return key.name in state.nodes
        case Kind.POD:
            return key in state.pods
        case Kind.RESOURCE_CLAIM:
            return key in state.claims
        case Kind.RESOURCE_CLAIM_TEMPLATE:
            return key in state.templates
        case Kind.DEVICE_CLASS:
            return key.name in state.devices.classes
        case Kind.RESOURCE_SLICE:
            return key.name in state.devices.slices
        case Kind.DEVICE_TAINT_RULE:
            return key.name in state.devices.taint_rules


def _remove(state: ClusterState, kind: Kind, key: ObjectKey, *, mirrored: bool = False) -> None:
    match kind:
        case Kind.NODE:
            state.remove_node(key.name)
        case Kind.POD:
            state.remove_pod(key, mirrored=mirrored)
        case Kind.RESOURCE_CLAIM:
            state.remove_claim(key)
        case Kind.RESOURCE_CLAIM_TEMPLATE:
            state.templates.discard(key)
        case Kind.DEVICE_CLASS:
            state.remove_class(key.name)
        case Kind.RESOURCE_SLICE:
            state.remove_slice(key.name)
        case Kind.DEVICE_TAINT_RULE:
            state.remove_rule(key.name)
