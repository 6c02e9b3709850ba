"""Hypothetical nodes, for the question whether one more node of a kind would help.

A *template* is a node with its own slices, and the pods of every node of its kind (pods of DaemonSets, and static
pods) with their claims. It is made from an existing node. Each node made from it has new names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dra_spawner.dra.model.node_selector import node_name_selector
from dra_spawner.dra.model.objects import (
    AllocatedDevice,
    Device,
    NodeSelector,
    NodeSelectorTerm,
    PoolId,
    Requirement,
    ResourceSlice,
    Taint,
)
from dra_spawner.names import (
    ATTRACT,
    CLOUD_PROVIDER_PREFIX,
    DRAIN_SPARES_PREFIX,
    DRAINING,
    HOSTNAME,
    IMAGES_READY,
    LATE,
    NODE_PREFIX,
    STARTUP_TAINT_PREFIX,
)
from dra_spawner.simulator.fitting import NodeAnswer
from dra_spawner.simulator.model.claims import ObjectKey, TrackedClaim
from dra_spawner.simulator.model.nodes import SchedulableNode
from dra_spawner.simulator.model.pods import ClaimReference, Pod
from dra_spawner.simulator.snapshot import Snapshot
from dra_spawner.simulator.snapshot_errors import SnapshotError, SnapshotProblem, find

_NODE_NAME_FIELD: Final = "metadata.name"
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
_DAEMON_SET: Final = "DaemonSet"
_STATIC: Final = "Node"
"""Controller of a static pod, which the kubelet starts without the scheduler."""

_PASSING_TAINTS: Final = (
    NODE_PREFIX,
    CLOUD_PROVIDER_PREFIX,
    STARTUP_TAINT_PREFIX,
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Prefixes of taints about the state of one node."""


class TemplateError(Exception):
    """Raised for a node without a template: a copy would differ from a new node of its kind."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A kind of node.

    Attributes
    ----------
    slices
        Its own slices, whose ``nodeName`` is the node's; their pools are complete.
    claims
        Generated claims of the pods.
    notes
        Sentences about parts that a new node may have and the template lacks.
    """

    node: SchedulableNode
    slices: tuple[ResourceSlice, ...] = ()
    pods: tuple[Pod, ...] = ()
    claims: tuple[TrackedClaim, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddedNode:
    """A node that was added from a template.

    Attributes
    ----------
    misfits
        Pods of the template that do not fit on the node, with the reasons.
    """

    name: str
    misfits: Mapping[ObjectKey, NodeAnswer]


def template_of(snapshot: Snapshot, node_name: str) -> NodeTemplate:
    """Make a template from a node, without its present state.

    Its state is a cordon, readiness, labels of draining, attraction and a late image, and taints of the node and of its
    devices: drivers taint devices that are broken.

    Raises
    ------
    SnapshotError
        If the node does not exist.
    TemplateError
        When one of its pools is incomplete, or a claim of one of its pods has devices of other nodes.
    """
    state = find(snapshot.nodes, node_name, "node")
    for broken in snapshot.broken:
        if broken.node_name == node_name:
            raise TemplateError(f"node {node_name}: {broken}")
    slices, notes = _own_slices(snapshot, node_name)
    pods = tuple(pod for pod in state.pods if pod.controller in (_DAEMON_SET, _STATIC) and not pod.is_deleted)
    pools = frozenset(item.pool_id for item in slices)
    claims = [_own_claim(tracked, node_name, pools) for pod in pods for tracked in _created_for(pod, snapshot)]
    passing = (DRAINING, DRAIN_SPARES_PREFIX, ATTRACT)
    labels = {key: value for key, value in state.node.labels.items() if not key.startswith(passing)}
    if labels.get(IMAGES_READY) == LATE:
        del labels[IMAGES_READY]
    node = replace(state.node, is_unschedulable=False, is_ready=True, taints=lasting_taints(state.node), labels=labels)
    return NodeTemplate(node, slices, pods, tuple(claims), notes)


def lasting_taints(node: SchedulableNode) -> tuple[Taint, ...]:
    """Taints of a node that are no state of this one node."""
    return tuple(taint for taint in node.taints if not taint.key.startswith(_PASSING_TAINTS))


def add_node(snapshot: Snapshot, template: NodeTemplate, suffix: str) -> AddedNode:
    """Add a node made from a template, with its slices and pods.

    Its pods are scheduled to it with all filters, except for static pods. Their claims get devices if they had none.
    Pods that do not fit are left out and reported. On an error nothing changes.

    Parameters
    ----------
    suffix
        Suffix of names, valid in a DNS label; the names must be new.

    Raises
    ------
    SnapshotError
        When a node of that name exists.
    """
    names = _Names(template, suffix)
    if names.node in snapshot.nodes:
        raise SnapshotError(SnapshotProblem.EXISTS, f"node {names.node} exists already")
    with snapshot.all_or_nothing():
        snapshot.put(names.new_node())
        for item in template.slices:
            snapshot.put(names.new_slice(item))
        for tracked in template.claims:
            snapshot.put(names.new_claim(tracked))
        misfits = {}
        for pod in template.pods:
            new = names.new_pod(pod)
            snapshot.put(new if pod.controller != _STATIC else replace(new, node_name=names.node))
            answer = snapshot.schedule(new, names.node) if pod.controller != _STATIC else None
            if answer is not None and not answer.fits:
                snapshot.remove_pod(ObjectKey.of(new))
                misfits[ObjectKey.of(new)] = answer
    return AddedNode(names.node, misfits)


def _own_slices(snapshot: Snapshot, node_name: str) -> tuple[tuple[ResourceSlice, ...], tuple[str, ...]]:
    """The newest slices of a node's own pools; notes about pools that it shares with other nodes."""
    everything = list(snapshot.state.devices.in_order()[0])
    pools: dict[PoolId, list[ResourceSlice]] = {}
    notes = []
    for item in everything:
        if item.node_name == node_name:
            pools.setdefault(item.pool_id, []).append(item)
        elif any(device.node_name == node_name for device in item.devices):
            notes.append(f"slice {item.name}: pool {item.pool_id} has devices of several nodes")
    own: list[ResourceSlice] = []
    for pool_id, slices in pools.items():
        newest = max(item.generation for item in everything if item.pool_id == pool_id)
        current = [item for item in slices if item.generation == newest]
        count = current[0].resource_slice_count if current else 0
        if len(current) != count or not current:
            raise TemplateError(
                f"node {node_name}: pool {pool_id} is incomplete, or not the node's own: "
                f"generation {newest} has {len(current)} of {count} slices here"
            )
        own += [replace(item, devices=tuple(replace(each, taints=()) for each in item.devices)) for item in current]
    return tuple(own), tuple(notes)


def _created_for(pod: Pod, snapshot: Snapshot) -> Iterable[TrackedClaim]:
    for key in snapshot.state.generated_claims[ObjectKey.of(pod)]:
        tracked = snapshot.claims[key]
        if tracked.belongs_to(pod):
            yield tracked


def _own_claim(tracked: TrackedClaim, node_name: str, pools: frozenset[PoolId]) -> TrackedClaim:
    """The claim, if it can be copied to another node.

    Its devices must be the node's own, or it must have only admin access to others.

    Raises
    ------
    TemplateError
        When it cannot be copied.
    """
    status = tracked.claim.status
    if status.devices is None:
        return tracked
    foreign = [result for result in status.devices if _pool(result) not in pools and not result.admin_access]
    if foreign:
        raise TemplateError(
            f"node {node_name}: claim {tracked.claim} has device {foreign[0].id}, which is not the node's own"
        )
    only_admin = all(result.admin_access for result in status.devices)
    if status.devices and not only_admin and status.node_selector != node_name_selector(node_name):
        raise TemplateError(f"node {node_name}: claim {tracked.claim} is allocated for other nodes, too")
    return tracked


def _pool(result: AllocatedDevice) -> PoolId:
    return PoolId(result.id.driver, result.id.pool)


class _Names:
    """Replaces the old names by the new ones in the objects of one node."""

    def __init__(self, template: NodeTemplate, suffix: str) -> None:
        self._template = template
        self._suffix = suffix
        self._old_node = template.node.name
        self._pools = {item.pool_id for item in template.slices}
        self._claims = {tracked.key for tracked in template.claims}
        self.node = self._new(self._old_node)

    def new_node(self) -> SchedulableNode:
        node = self._template.node
        hostname = {HOSTNAME: self._new(node.labels[HOSTNAME], _MAX_LABEL)} if HOSTNAME in node.labels else {}
        return replace(node, name=self.node, labels={**node.labels, **hostname})

    def new_slice(self, item: ResourceSlice) -> ResourceSlice:
        pool_id = PoolId(item.pool_id.driver, self._new_pool(item.pool_id.pool))
        return replace(
            item,
            name=self._new(item.name),
            pool_id=pool_id,
            node_name=self.node,
            devices=tuple(self._new_device(device, pool_id) for device in item.devices),
        )

    def new_claim(self, tracked: TrackedClaim) -> TrackedClaim:
        """The claim for the new pod, with the same devices of the new node; without devices if it had none."""
        claim = tracked.claim
        new = replace(
            tracked,
            owner=self._new(tracked.owner),
            owner_uid=self._new(tracked.owner_uid),
            claim=replace(claim, name=self._new(claim.name), uid=self._new(claim.uid)),
        ).deallocated()
        if claim.status.devices is None:
            return new
        selector = claim.status.node_selector
        return new.allocated(
            tuple(self._new_result(result) for result in claim.status.devices),
            self._new_selector(selector) if selector is not None else None,
        )

    def new_pod(self, pod: Pod) -> Pod:
        """The new pod, without a node, so that all filters apply."""
        return replace(
            pod,
            name=self._new(pod.name),
            uid=self._new(pod.uid),
            node_name="",
            claims=tuple(self._new_reference(reference, pod) for reference in pod.claims),
            required_nodes=self._new_selector(pod.required_nodes) if pod.required_nodes is not None else None,
        )

    def _new(self, name: str, most: int = _MAX_NAME) -> str:
        """Name with the suffix, shortened to the limit."""
        return f"{name[: most - len(self._suffix) - 1].rstrip('-.')}-{self._suffix}" if name else ""

    def _new_pool(self, pool: str) -> str:
        return self._new(pool)

    def _new_device(self, device: Device, pool_id: PoolId) -> Device:
        return replace(
            device,
            id=device.id._replace(pool=pool_id.pool),
            node_name=self.node if device.node_name == self._old_node else device.node_name,
        )

    def _new_result(self, result: AllocatedDevice) -> AllocatedDevice:
        if _pool(result) not in self._pools:
            return result
        share_id = f"{result.share_id}-{self._suffix}" if result.share_id is not None else None
        return replace(result, id=result.id._replace(pool=self._new_pool(result.id.pool)), share_id=share_id)

    def _new_reference(self, reference: ClaimReference, pod: Pod) -> ClaimReference:
        if reference.claim is None or ObjectKey(pod.namespace, reference.claim) not in self._claims:
            return reference
        return replace(reference, claim=self._new(reference.claim))

    def _new_selector(self, selector: NodeSelector) -> NodeSelector:
        return NodeSelector(
            tuple(
                NodeSelectorTerm(term.match_expressions, tuple(map(self._new_requirement, term.match_fields)))
                for term in selector.terms
            )
        )

    def _new_requirement(self, requirement: Requirement) -> Requirement:
        if requirement.key != _NODE_NAME_FIELD:
            return requirement
        values = tuple(self.node if value == self._old_node else value for value in requirement.values)
        return replace(requirement, values=values)
