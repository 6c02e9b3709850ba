"""The scheduler's cache of the store; each change is decoded once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.http.discovery import KUBERNETES_VERSION
from dra_spawner.devcluster.api.resource_types import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    ResourceType,
)
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.dra.allocation.allocator import AllocatedState
from dra_spawner.dra.allocation.selectors import SelectorCache
from dra_spawner.dra.model.extended_resources import EXTENDED_RESOURCE_ANNOTATION
from dra_spawner.dra.model.objects import DeviceClass, DeviceTaintRule, ObjectError, ResourceClaim, ResourceSlice
from dra_spawner.dra.model.pools import SliceIndex
from dra_spawner.dra.model.taint_rules import applied, with_rules
from dra_spawner.dra.scheduler_rules import rules_of
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.node_fit import Filter
from dra_spawner.simulator.scheduler.scheduling import ClusterView, SchedulingQuestion

log = logging.getLogger(__name__)
T = TypeVar("T")

_RULES = rules_of(KUBERNETES_VERSION)
CACHED = (NODES, PODS, RESOURCECLAIMS, RESOURCESLICES, DEVICECLASSES, DEVICETAINTRULES)

_Key = tuple[str, str]
"""Namespace and name."""


class ClusterCache:
    """Nodes, pods, devices and claims of a store; `apply` updates it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nodes: dict[str, SchedulableNode] = {}
        self._states: dict[str, NodeState] = {}
        self._pods: dict[_Key, Pod] = {}
        # In kube-scheduler's order, which decides between victims of equal priority and start.
        self._on_node: dict[str, list[Pod]] = {}
        self._claims: dict[_Key, ResourceClaim] = {}
        self._allocated = AllocatedState(_RULES)
        self._slices: dict[str, ResourceSlice] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._index: SliceIndex | None = None
        self._selectors = _new_selector_cache()
        self._classes: dict[str, DeviceClass] = {}
        self._undecodable: dict[tuple[ResourceType, _Key], str] = {}

    def adopt(self) -> None:
        """Add all present objects."""
        for resource_type in CACHED:
            for obj in self._store.objects(resource_type):
                self._put(resource_type, obj)

    def apply(self, event: WatchEvent) -> None:
        """Apply a change of the store."""
        if event.resource_type not in CACHED:
            return
        if event.type is WatchEventType.DELETED:
            self._remove(event.resource_type, _key(event.object))
        else:
            self._put(event.resource_type, event.object)

    def pod(self, key: _Key) -> Pod | None:
        """A pod; None if it is missing or invalid."""
        return self._pods.get(key)

    def problem(self, resource_type: ResourceType, key: _Key) -> str:
        """Why an object is invalid; empty if it is valid."""
        return self._undecodable.get((resource_type, key), "")

    def view(self) -> ClusterView:
        """The present cluster; invalid after the next change."""
        for name, node in self._nodes.items():
            if name not in self._states:
                self._states[name] = NodeState.of(node, self._on_node.get(name, ()))
        if self._index is None:
            rules = applied(self._taint_rules, _RULES.quirks)
            self._index = SliceIndex([with_rules(self._slices[name], rules) for name in sorted(self._slices)])
        nominated: dict[str, list[Pod]] = {}
        for pod in self._pods.values():
            if pod.nominated_node_name and not pod.node_name and not pod.is_finished:
                nominated.setdefault(pod.nominated_node_name, []).append(pod)
        return ClusterView(
            nodes=[self._states[name] for name in sorted(self._nodes)],
            slices=self._index,
            classes=self._classes,
            allocated=self._allocated,
            rules=_RULES,
            nominated=nominated,
            selectors=self._selectors,
        )

    def question(self, pod: Pod) -> SchedulingQuestion:
        """The pod with all objects that it names."""
        volume_problem, volume_filter = self._volume_problem(pod)
        if volume_problem:
            return SchedulingQuestion(pod, problem=volume_problem, problem_filter=volume_filter)
        problem = self.claim_problem(pod)
        if problem:
            return SchedulingQuestion(pod, problem=problem)
        claims = tuple(
            self._claims[pod.namespace, reference.claim]
            for reference in pod.claims
            if reference.is_needed and reference.claim is not None
        )
        return SchedulingQuestion(pod, claims, leftover=self._leftover(pod))

    def _leftover(self, pod: Pod) -> ResourceClaim | None:
        """A claim for the pod's extended resources from an earlier attempt."""
        if not any("/" in resource for resource in pod.requests):
            return None
        for claim in self._store.objects(RESOURCECLAIMS, pod.namespace):
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true" and _is_controlled_by(claim, pod):
                return self._claims.get(_key(claim))
        return None

    def claim_problem(self, pod: Pod) -> str:
        """kube-scheduler's message about claims that the pod cannot use; empty if it can use all."""
        for reference in pod.claims:
            if not reference.is_needed:
                continue
            if reference.claim is None:
                return f'pod "{pod}": ResourceClaim not created yet'
            key = (pod.namespace, reference.claim)
            claim = self._store.find(RESOURCECLAIMS, *key)
            if claim is None:
                return f'{RESOURCECLAIMS.singular}.{RESOURCECLAIMS.group} "{reference.claim}" not found'
            if key not in self._claims:
                return f"this scheduler cannot decide: {self.problem(RESOURCECLAIMS, key)}"
            if claim["metadata"].get("deletionTimestamp"):
                return f'resourceclaim "{reference.claim}" is being deleted'
            if reference.template is not None and not _is_controlled_by(claim, pod):
                name = f"{pod.namespace}/{reference.claim}"
                return f"ResourceClaim {name} was not created for Pod {pod} (Pod is not owner)"
        return ""

    def _volume_problem(self, pod: Pod) -> tuple[str, Filter]:
        """Problem of the pod's volume claims, and the filter that finds it; volumes themselves always exist here."""
        for name in pod.volume_claims:
            claim = self._store.find(PERSISTENTVOLUMECLAIMS, pod.namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found', Filter.VOLUME_BINDING
            if claim["metadata"].get("deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted', Filter.VOLUME_BINDING
            if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
                return "this scheduler cannot decide about volumes for one pod only", Filter.NOT_MODELLED
        return "", Filter.VOLUME_BINDING

    def _put(self, resource_type: ResourceType, obj: JsonObject) -> None:
        key = _key(obj)
        self._remove(resource_type, key)
        if resource_type is NODES:
            node = self._decoded(resource_type, key, SchedulableNode.from_json, obj)
            if node is not None:
                self._nodes[node.name] = node
        elif resource_type is PODS:
            self._put_pod(key, obj)
        elif resource_type is RESOURCECLAIMS:
            claim = self._decoded(resource_type, key, ResourceClaim.from_json, obj)
            if claim is not None:
                self._claims[key] = claim
                self._allocated.add(claim.status.devices or ())
        elif resource_type is RESOURCESLICES:
            part = self._decoded(resource_type, key, ResourceSlice.from_json, obj)
            if part is not None:
                self._slices[key[1]] = part
        elif resource_type is DEVICETAINTRULES:
            rule = self._decoded(resource_type, key, DeviceTaintRule.from_json, obj)
            if rule is not None:
                self._taint_rules[key[1]] = rule
        elif resource_type is DEVICECLASSES:
            device_class = self._decoded(resource_type, key, DeviceClass.from_json, obj)
            if device_class is not None:
                self._classes[key[1]] = device_class

    def _put_pod(self, key: _Key, obj: JsonObject) -> None:
        pod = self._decoded(PODS, key, Pod.from_json, obj)
        if pod is None:
            return
        self._pods[key] = pod
        if pod.node_name and not pod.is_finished:
            self._on_node.setdefault(pod.node_name, []).append(pod)
            self._states.pop(pod.node_name, None)

    def _remove(self, resource_type: ResourceType, key: _Key) -> None:
        self._undecodable.pop((resource_type, key), None)
        if resource_type is NODES:
            self._nodes.pop(key[1], None)
            self._states.pop(key[1], None)
        elif resource_type is PODS:
            pod = self._pods.pop(key, None)
            if pod is not None and pod.node_name:
                _take_out(self._on_node.get(pod.node_name, []), pod)
                self._states.pop(pod.node_name, None)
        elif resource_type is RESOURCECLAIMS:
            claim = self._claims.pop(key, None)
            if claim is not None:
                self._allocated.remove(claim.status.devices or ())
        elif resource_type is RESOURCESLICES:
            self._slices.pop(key[1], None)
            self._index, self._selectors = None, _new_selector_cache()
        elif resource_type is DEVICETAINTRULES:
            self._taint_rules.pop(key[1], None)
            self._index = None
        elif resource_type is DEVICECLASSES:
            self._classes.pop(key[1], None)

    def _decoded(
        self, resource_type: ResourceType, key: _Key, decode: Callable[[object], T], obj: JsonObject
    ) -> T | None:
        try:
            return decode(obj)
        except ObjectError as error:
            log.warning("The scheduler ignores an invalid object: %s", error)
            self._undecodable[resource_type, key] = str(error)
            return None


def _new_selector_cache() -> SelectorCache:
    return SelectorCache(list_attributes=_RULES.selectors_see_lists)


def _take_out(pods: list[Pod], pod: Pod) -> None:
    """Remove a pod; the last pod gets its position, as in kube-scheduler's ``NodeInfo.RemovePod``."""
    for position, other in enumerate(pods):
        if other is pod:
            pods[position] = pods[-1]
            pods.pop()
            return


def _key(obj: JsonObject) -> _Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _is_controlled_by(claim: JsonObject, pod: Pod) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod.uid for owner in owners)
