"""All objects that decide where pods run, consistent after every change.

Each change has a journal entry, so the cost of a revert depends on the changes only. Nothing is validated here but in
:class:`~dra_spawner.simulator.snapshot.Snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dra_spawner.dra.model.objects import ConsumerReference, DeviceClass, DeviceTaintRule, ResourceSlice
from dra_spawner.simulator.devices.device_state import DeviceState
from dra_spawner.simulator.model.claims import ClaimTemplate, ObjectKey, TrackedClaim, consumer_of
from dra_spawner.simulator.model.cluster_objects import BrokenObject, Kind, stand_in
from dra_spawner.simulator.model.journal import Journal
from dra_spawner.simulator.model.nodes import NodeState, SchedulableNode
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.model.table import Groups, Table


class ClusterState:
    """All objects that decide where pods run, with indexes.

    Attributes
    ----------
    devices
        Slices, device classes and allocated devices.
    nodes
        Nodes with their pods, by name.
    pods, claims, templates
        By namespace and name.
    broken
        Invalid objects.
    pods_of_node
        Bound pods, by node; the node may be missing.
    nominated
        Nominated pods, by node.
    generated_claims
        Claims that were created for a pod, by pod.
    claims_reserved_for
        Claims that a pod uses, by namespace and consumer.
    anti_affinity_pods
        Pods with anti-affinity, by node.
    """

    def __init__(self, journal: Journal, devices: DeviceState) -> None:
        self.journal = journal
        self.devices = devices
        self.nodes: Table[str, NodeState] = Table(journal)
        self.pods: Table[ObjectKey, Pod] = Table(journal)
        self.claims: Table[ObjectKey, TrackedClaim] = Table(journal)
        self.templates: Table[ObjectKey, ClaimTemplate] = Table(journal)
        self.broken: Table[tuple[Kind, ObjectKey], BrokenObject] = Table(journal)
        self.pods_of_node: Groups[str, ObjectKey] = Groups(journal)
        self.nominated: Groups[str, ObjectKey] = Groups(journal)
        self.generated_claims: Groups[ObjectKey, ObjectKey] = Groups(journal)
        self.claims_reserved_for: Groups[tuple[str, ConsumerReference], ObjectKey] = Groups(journal)
        self.anti_affinity_pods: Groups[str, ObjectKey] = Groups(journal)

    def put_node(self, node: SchedulableNode) -> None:
        """Add or replace a node, with the pods that are bound to it."""
        known = self.nodes.get(node.name)
        if known is not None:
            self.nodes.put(node.name, known.with_node(node))
        else:
            pods = [self.pods[key] for key in self.pods_of_node[node.name]]
            self.nodes.put(node.name, NodeState.of(node, pods))
        self.devices.add_node(node.identity)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods stay, without a node."""
        self.nodes.discard(name)
        self.devices.remove_node(name)

    def put_slice(self, item: ResourceSlice) -> None:
        self.devices.put_slice(item)

    def remove_slice(self, name: str) -> None:
        self.devices.remove_slice(name)

    def put_rule(self, rule: DeviceTaintRule) -> None:
        self.devices.put_rule(rule)

    def remove_rule(self, name: str) -> None:
        self.devices.remove_rule(name)

    def put_class(self, item: DeviceClass) -> None:
        self.devices.put_class(item)

    def remove_class(self, name: str) -> None:
        self.devices.remove_class(name)

    def put_template(self, template: ClaimTemplate) -> None:
        self.templates.put(ObjectKey(template.namespace, template.name), template)

    def put_broken(self, broken: BrokenObject) -> None:
        """Store an invalid object; a slice's pool is invalid until the slice is valid."""
        self.broken.put((broken.kind, broken.key), broken)
        substitute = stand_in(broken) if broken.kind is Kind.RESOURCE_SLICE else None
        if substitute is not None:
            self.put_slice(substitute)

    def put_pod(self, pod: Pod, *, mirrored: bool = False) -> None:
        """Add or replace a pod; a finished pod needs no resources.

        Parameters
        ----------
        mirrored
            Whether to leave claims unchanged: the claim controller changes them, and its changes arrive as claims.
        """
        key = ObjectKey.of(pod)
        known = self.pods.get(key)
        if known is not None:
            self._leave(known)
        self.pods.put(key, pod)
        self._enter(pod)
        if mirrored:
            return
        if known is not None and known.uid != pod.uid:
            self.release_claims(known)
        if pod.is_finished:
            self.release_claims(pod)

    def remove_pod(self, key: ObjectKey, *, mirrored: bool = False) -> Pod:
        """Remove a pod and, unless `mirrored` (see `put_pod`), release its claims."""
        pod = self.pods[key]
        self._leave(pod)
        self.pods.discard(key)
        if not mirrored:
            self.release_claims(pod)
        return pod

    def _enter(self, pod: Pod) -> None:
        if pod.is_finished:
            return
        key = ObjectKey.of(pod)
        if not pod.node_name:
            if pod.nominated_node_name:
                self.nominated.add(pod.nominated_node_name, key)
            return
        self.pods_of_node.add(pod.node_name, key)
        if pod.required_anti_affinity:
            self.anti_affinity_pods.add(pod.node_name, key)
        state = self.nodes.get(pod.node_name)
        if state is not None:
            self.nodes.put(pod.node_name, state.with_pods((pod,)))

    def _leave(self, pod: Pod) -> None:
        if pod.is_finished:
            return
        key = ObjectKey.of(pod)
        if not pod.node_name:
            if pod.nominated_node_name:
                self.nominated.remove(pod.nominated_node_name, key)
            return
        self.pods_of_node.remove(pod.node_name, key)
        if pod.required_anti_affinity:
            self.anti_affinity_pods.remove(pod.node_name, key)
        state = self.nodes.get(pod.node_name)
        if state is not None:
            self.nodes.put(pod.node_name, state.without_pods((pod,)))

    def put_claim(self, tracked: TrackedClaim) -> None:
        """Add or replace a claim, with its devices and consumers."""
        key = tracked.key
        known = self.claims.get(key)
        before = known.claim.status if known is not None else None
        after = tracked.claim.status
        self.claims.put(key, tracked)
        if before is None or before.devices != after.devices:
            if before is not None and before.devices is not None:
                self.devices.release(key)
            if after.devices is not None:
                self.devices.record(key, after.devices)
        self._link_consumers(key, before.reserved_for if before is not None else (), after.reserved_for)
        owners = [ObjectKey(key.namespace, each.owner) if each is not None else None for each in (known, tracked)]
        if owners[0] != owners[1]:
            if owners[0] is not None and owners[0].name:
                self.generated_claims.remove(owners[0], key)
            if tracked.owner:
                self.generated_claims.add(ObjectKey(key.namespace, tracked.owner), key)

    def remove_claim(self, key: ObjectKey) -> TrackedClaim:
        """Remove a claim, and free its devices."""
        tracked = self.claims[key]
        self.claims.discard(key)
        if tracked.claim.is_allocated:
            self.devices.release(key)
        self._link_consumers(key, tracked.consumers, ())
        if tracked.owner:
            self.generated_claims.remove(ObjectKey(key.namespace, tracked.owner), key)
        return tracked

    def release_claims(self, pod: Pod) -> None:
        """Do what the claim controller does after a pod: deallocate claims without consumers, delete the pod's own."""
        consumer = consumer_of(pod)
        for key in self.claims_reserved_for[pod.namespace, consumer]:
            self.put_consumers(key, [each for each in self.claims[key].consumers if each != consumer])
        for key in self.generated_claims[ObjectKey.of(pod)]:
            tracked = self.claims[key]
            if not tracked.belongs_to(pod):
                continue
            if tracked.consumers:
                self.put_claim(replace(tracked, is_deleted=True))
            else:
                self.remove_claim(key)

    def put_consumers(self, key: ObjectKey, consumers: Iterable[ConsumerReference]) -> None:
        """Set the consumers of a claim. Without a consumer it is deallocated, and removed if it is being deleted."""
        tracked = self.claims[key].with_consumers(tuple(consumers))
        if tracked.consumers:
            self.put_claim(tracked)
        elif tracked.is_deleted:
            self.remove_claim(key)
        else:
            self.put_claim(tracked.deallocated() if tracked.is_protected else tracked)

    def _link_consumers(
        self, key: ObjectKey, before: tuple[ConsumerReference, ...], after: tuple[ConsumerReference, ...]
    ) -> None:
        for consumer in dict.fromkeys(before):
            if consumer not in after:
                self.claims_reserved_for.remove((key.namespace, consumer), key)
        for consumer in dict.fromkeys(after):
            if consumer not in before:
                self.claims_reserved_for.add((key.namespace, consumer), key)
