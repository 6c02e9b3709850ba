"""What the scheduler writes to ResourceClaims: allocations and reservations, and their end."""

from __future__ import annotations

from collections.abc import Callable

from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.json_values import JsonObject
from dra_spawner.devcluster.api.resource_types import RESOURCECLAIMS
from dra_spawner.devcluster.api.store import Store
from dra_spawner.devcluster.clock import timestamp
from dra_spawner.devcluster.controllers.claim_controller import CLAIM_FINALIZER
from dra_spawner.dra.objects import ResourceClaim
from dra_spawner.simulator.scheduling import Placement, Question

__all__ = ["BindingFailed", "bind_claims", "deallocate"]


class BindingFailed(Exception):
    """A claim could not be allocated or reserved; reservations made for the pod are taken back."""


def bind_claims(store: Store, question: Question, placement: Placement, new_share_id: Callable[[], str]) -> None:
    """Record the allocations of a placement, and reserve all claims of the pod for it.

    Raises
    ------
    BindingFailed
        When the API refuses one of the writes. Allocations that were written by then stay, as with kube-scheduler.
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


def deallocate(store: Store, claim: ResourceClaim) -> None:
    """Take everything back that a claim was given."""

    def change(obj: JsonObject) -> None:
        for field in ("allocation", "reservedFor", "devices"):
            obj["status"].pop(field, None)

    store.modify(RESOURCECLAIMS, claim.namespace, claim.name, change, "status")


def _bind(store: Store, claim: ResourceClaim, allocation: JsonObject | None, consumer: JsonObject) -> None:
    def protect(obj: JsonObject) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLAIM_FINALIZER not in finalizers:
            finalizers.append(CLAIM_FINALIZER)

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
