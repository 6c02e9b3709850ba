"""ResourceClaims with owners, consumers and deletion state, and their templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from dra_spawner import names
from dra_spawner.dra.allocation.results import Allocation
from dra_spawner.dra.model.decoding import Reader
from dra_spawner.dra.model.extended_resources import EXTENDED_RESOURCE_ANNOTATION
from dra_spawner.dra.model.objects import AllocatedDevice, ClaimStatus, ConsumerReference, NodeSelector, ResourceClaim
from dra_spawner.simulator.model.pods import Pod

MAX_CONSUMERS: Final = 256
"""Entries of ``status.reservedFor`` that the API server admits (``ResourceClaimReservedForMaxSize``)."""

_FOR_EXTENDED_RESOURCES: Final = EXTENDED_RESOURCE_ANNOTATION
_PODS: Final = "pods"


class ObjectKey(NamedTuple):
    """Namespace and name of an object."""

    namespace: str
    name: str

    @classmethod
    def of(cls, obj: Pod | ResourceClaim) -> ObjectKey:
        return cls(obj.namespace, obj.name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class TrackedClaim:
    """A claim with its owner, consumers and deletion state."""

    claim: ResourceClaim
    owner: str = ""
    """Name of the pod that controls it, and whose deletion deletes it; empty for a shared claim."""
    owner_uid: str = ""
    entry: str = ""
    """The entry of its owner's ``resourceClaims`` that it was created for."""
    is_deleted: bool = False
    """Whether it is being deleted, so that no further pod can use it."""
    is_protected: bool = True
    """Whether it has the finalizer of an allocation, without which it is not deallocated after its last consumer."""
    is_for_extended_resources: bool = False
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    owner_uids: tuple[str, ...] = ()
    """Uids of all owners; the claim is deleted after the last of them."""
    created: str = ""
    """``metadata.creationTimestamp``."""

    @classmethod
    def from_json(cls, obj: object) -> TrackedClaim:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        claim = ResourceClaim.from_json(obj)
        metadata = Reader.root(obj, "ResourceClaim").required_child("metadata")
        annotations = metadata.text_map("annotations")
        owner = next(
            (
                each
                for each in metadata.children("ownerReferences")
                if each.boolean("controller") and each.text("kind") == "Pod" and each.text("apiVersion") == "v1"
            ),
            None,
        )
        return cls(
            claim=claim,
            owner=owner.text("name") if owner is not None else "",
            owner_uid=owner.text("uid") if owner is not None else "",
            entry=annotations.get(names.POD_CLAIM_NAME, ""),
            is_deleted=metadata.has("deletionTimestamp"),
            is_protected=names.DELETE_PROTECTION in (metadata.texts("finalizers") or ()),
            is_for_extended_resources=annotations.get(_FOR_EXTENDED_RESOURCES) == "true",
            labels=metadata.text_map("labels"),
            owner_uids=tuple(each.text("uid") for each in metadata.children("ownerReferences")),
            created=metadata.text("creationTimestamp"),
        )

    @classmethod
    def created_for(cls, pod: Pod, entry: str, claim: ResourceClaim) -> TrackedClaim:
        """A claim created for a pod; without `entry` it is for the pod's extended resources."""
        return cls(claim, pod.name, pod.uid, entry, is_protected=False, is_for_extended_resources=not entry)

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.claim)

    @property
    def consumers(self) -> tuple[ConsumerReference, ...]:
        return self.claim.status.reserved_for

    def belongs_to(self, pod: Pod) -> bool:
        """Whether it was created for this pod."""
        return bool(self.owner) and (self.claim.namespace, self.owner, self.owner_uid) == (
            pod.namespace,
            pod.name,
            pod.uid,
        )

    def is_reserved_for(self, pod: Pod) -> bool:
        return consumer_of(pod) in self.consumers

    def allocated(
        self, devices: tuple[AllocatedDevice, ...], node_selector: NodeSelector | None = None
    ) -> TrackedClaim:
        status = replace(self.claim.status, devices=devices, node_selector=node_selector)
        return replace(self, claim=replace(self.claim, status=status), is_protected=True)

    def with_consumers(self, consumers: tuple[ConsumerReference, ...]) -> TrackedClaim:
        status = replace(self.claim.status, reserved_for=consumers)
        return replace(self, claim=replace(self.claim, status=status))

    def deallocated(self) -> TrackedClaim:
        """The claim without allocation and consumers."""
        return replace(self, claim=replace(self.claim, status=ClaimStatus()), is_protected=False)


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    name: str
    namespace: str
    pattern: ResourceClaim
    """A claim with the template's spec and without a name."""

    @classmethod
    def from_json(cls, obj: object) -> ClaimTemplate:
        """Decode the API object; :class:`~dra_spawner.dra.model.decoding.ObjectError` names the first wrong field."""
        root = Reader.root(obj, "ResourceClaimTemplate")
        metadata = root.required_child("metadata")
        name, namespace = metadata.required_text("name"), metadata.text("namespace")
        return cls(name, namespace, ResourceClaim.decode("", namespace, root.required_child("spec").child("spec")))

    def claim_for(self, pod: Pod, entry: str) -> TrackedClaim:
        """The claim that will be created for a pod."""
        name = simulated_name(pod, entry)
        return TrackedClaim.created_for(pod, entry, replace(self.pattern, name=name, uid=f"{pod.uid}/{entry}"))


def simulated_name(pod: Pod, entry: str) -> str:
    """Name of a claim that does not exist yet: pod and entry, with a separator that names of objects cannot have."""
    return f"{pod.name}:{entry}"


def consumer_of(pod: Pod) -> ConsumerReference:
    """The pod as an entry of ``reservedFor``."""
    return ConsumerReference(_PODS, pod.name, pod.uid)


def allocated_devices(allocation: Allocation, claim: ResourceClaim) -> tuple[AllocatedDevice, ...]:
    """The devices of an allocation as in the claim's status, with invented unique ids of shares."""
    return tuple(
        result.as_allocated(f"{claim.namespace}/{claim.name}/{index}")
        for index, result in enumerate(allocation.results)
    )
