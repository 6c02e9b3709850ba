"""Two nodes, the first with two devices; claims, templates and pods for them."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.model.objects import DeviceClass
from dra_spawner.simulator.model.claims import MAX_CONSUMERS, ClaimTemplate, ObjectKey, TrackedClaim
from dra_spawner.simulator.snapshot import Snapshot
from tests.dra.builders import device_json, make_slice, request
from tests.simulator.objects import node, pod

GPU = DeviceClass("gpu", ("true",))
FINALIZER = "resource.kubernetes.io/delete-protection"
MANY = tuple(f"u{number}" for number in range(MAX_CONSUMERS))
"""As many users as a claim may have."""


def gpu_slice(node_name: str = "n1", count: int = 2, **more: Any) -> Any:
    return make_slice(
        node_name, [device_json(f"d{number}") for number in range(count)], pool=node_name, nodeName=node_name, **more
    )


def cluster(*more: Any, **options: Any) -> Snapshot:
    """Two nodes, the first with two devices."""
    return Snapshot([node("n1"), node("n2"), GPU, gpu_slice(), *more], **options)


def template(*requests: Any, name: str = "t") -> ClaimTemplate:
    spec = {"devices": {"requests": list(requests or (request(),))}}
    return ClaimTemplate.from_json({"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": spec}})


def claim(name: str = "c", *results: Any, users: tuple[str, ...] = (), owner: str = "", **more: Any) -> TrackedClaim:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "finalizers": [FINALIZER]}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}
        ]
        metadata["annotations"] = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    metadata |= more.pop("metadata", {})
    status: dict[str, Any] = {}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}} | more
        status["reservedFor"] = [{"resource": "pods", "name": name, "uid": name} for name in users]
    spec = {"devices": {"requests": [request()]}}
    return TrackedClaim.from_json({"metadata": metadata, "spec": spec, "status": status})


def with_claim(name: str = "p", claim_name: str = "c", **spec: Any) -> Any:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], **spec)


def with_template(name: str = "p", template_name: str = "t", **spec: Any) -> Any:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": template_name}], **spec)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def devices_of(snapshot: Snapshot, name: str) -> list[str] | None:
    devices = snapshot.claims[key(name)].claim.status.devices
    return [device.id.device for device in devices] if devices is not None else None


def consumers_of(snapshot: Snapshot, name: str) -> list[str]:
    return [consumer.name for consumer in snapshot.claims[key(name)].consumers]
