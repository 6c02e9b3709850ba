"""The scheduler's writes to ResourceClaims: allocations and consumers."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import PODS, RESOURCECLAIMS
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import timestamp
from dra_spawner.dra.allocation.allocator import Allocation
from dra_spawner.dra.model.extended_resources import EXTENDED_RESOURCE_ANNOTATION, ExtendedRequests
from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.simulator.model.pods import Pod
from dra_spawner.simulator.scheduler.scheduling import ChosenNode, SchedulingQuestion


class BindingFailed(Exception):
    """Raised if a claim cannot be written; the pod is removed from its consumers."""


def bind_claims(
    store: Store, question: SchedulingQuestion, placement: ChosenNode, new_share_id: Callable[[], str]
) -> None:
    """Write the allocations of a placement, and add the pod to the consumers of its claims.

    Raises
    ------
    BindingFailed
        If the API refuses a write. Earlier allocations stay, as in kube-scheduler.
    """
    pod = question.pod
    allocations = {claim.name: allocation for claim, allocation in placement.allocations}
    reserved: list[ResourceClaim] = []
    for claim in question.claims:
        if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
            continue
        allocation = allocations.get(claim.name)
        status = allocation.to_json(new_share_id) if allocation is not None else None
        try:
            _bind(store, claim, status, {"resource": "pods", "name": pod.name, "uid": pod.uid})
        except ApiError as error:
            for other in reserved:
                _unreserve(store, other, pod.uid)
            what = "reservation" if allocation is None else "allocation and reservation"
            raise BindingFailed(f"add {what} to claim {claim}: {error.message}") from error
        reserved.append(claim)
    if placement.extended is not None:
        try:
            _bind_extended(store, pod, *placement.extended, new_share_id)
        except (ApiError, BindingFailed) as error:
            for other in reserved:
                _unreserve(store, other, pod.uid)
            if isinstance(error, BindingFailed):
                raise
            raise BindingFailed(f"create claim for extended resources {pod}: {error.message}") from error


def delete_extended_resource_claim(store: Store, namespace: str, name: str) -> None:
    """Delete the claim for a pod's extended resources."""
    store.modify(RESOURCECLAIMS, namespace, name, _unprotect)
    store.delete(RESOURCECLAIMS, namespace, name)


def deallocate(store: Store, claim: ResourceClaim) -> None:
    """Remove the allocation, the consumers and the device statuses of a claim."""

    def change(obj: JsonObject) -> None:
        for field in ("allocation", "reservedFor", "devices"):
            obj["status"].pop(field, None)

    store.modify(RESOURCECLAIMS, claim.namespace, claim.name, change, "status")


def _bind_extended(
    store: Store, pod: Pod, extended: ExtendedRequests, allocation: Allocation, new_share_id: Callable[[], str]
) -> None:
    """Create the allocated claim for a pod's extended resources, and write it into the pod's status."""
    if not extended.mappings:
        # kube-scheduler 1.36 fails here for a pod with claims of its own on a node with a device plugin.
        raise BindingFailed(f"nil or empty request mappings, no update of pod {pod} ExtendedResourceClaimStatus")
    consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    created = store.create(RESOURCECLAIMS, _extended_resource_claim(pod, extended), pod.namespace)
    name = created["metadata"]["name"]
    obj = store.get(PODS, pod.namespace, pod.name)
    containers = [*(obj["spec"].get("initContainers") or ()), *obj["spec"]["containers"]]
    mappings = [
        {
            "containerName": containers[mapping.container]["name"],
            "resourceName": mapping.resource,
            "requestName": mapping.request,
        }
        for mapping in extended.mappings
    ]

    def record(new: JsonObject) -> None:
        status = {"requestMappings": mappings, "resourceClaimName": name}
        new.setdefault("status", {})["extendedResourceClaimStatus"] = status

    try:
        _bind(store, ResourceClaim(name, pod.namespace), allocation.to_json(new_share_id), consumer)
        store.modify(PODS, pod.namespace, pod.name, record, "status")
    except ApiError:
        delete_extended_resource_claim(store, pod.namespace, name)
        raise


def _extended_resource_claim(pod: Pod, extended: ExtendedRequests) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.exactly.device_class_name,
                "allocationMode": "ExactCount",
                "count": request.exactly.count,
            },
        }
        for request in extended.requests
        if request.exactly is not None
    ]
    return {
        "apiVersion": names.RESOURCE_API,
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def _unprotect(obj: JsonObject) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    obj["metadata"]["finalizers"] = [each for each in finalizers if each != names.DELETE_PROTECTION]


def _bind(store: Store, claim: ResourceClaim, allocation: JsonObject | None, consumer: JsonObject) -> None:
    def protect(obj: JsonObject) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if names.DELETE_PROTECTION not in finalizers:
            finalizers.append(names.DELETE_PROTECTION)

    def reserve(obj: JsonObject) -> None:
        status = obj.setdefault("status", {})
        if allocation is not None:
            status["allocation"] = allocation
            allocation.setdefault("allocationTimestamp", timestamp(store.now()))
        status.setdefault("reservedFor", []).append(consumer)

    if allocation is not None:
        store.modify(RESOURCECLAIMS, claim.namespace, claim.name, protect)
    store.modify(RESOURCECLAIMS, claim.namespace, claim.name, reserve, "status")


def _unreserve(store: Store, claim: ResourceClaim, uid: str) -> None:
    def change(obj: JsonObject) -> None:
        left = [consumer for consumer in obj["status"].get("reservedFor") or () if consumer["uid"] != uid]
        obj["status"]["reservedFor"] = left

    store.modify(RESOURCECLAIMS, claim.namespace, claim.name, change, "status")
