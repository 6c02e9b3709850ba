"""Nodes, devices, claims and users' pods as the API has them, and the shapes of these pods: the builders of all worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.node_conditions import requiring_readiness
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of

NAMESPACE = "hub"
IMAGE = "quay.io/jupyter/scipy-notebook:2026"
#: The devices of `gpu.example.com` as an extended resource.
EXTENDED_RESOURCE = "example.com/gpu"

Json = dict[str, Any]


def gpu_claim(**devices: Any) -> Json:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1, **devices}}
    return {"devices": {"requests": [request]}}


def share_claim(memory: str) -> Json:
    return gpu_claim(capacity={"requests": {"memory": memory}})


def user_manifest(
    name: str,
    claims: Iterable[str] = (),
    cpu: str = "1",
    requires_ready: bool = True,
    extended: int = 0,
    *,
    memory: str = "1Gi",
    image: str = IMAGE,
    **spec: Any,
) -> Json:
    """A user's pod as the spawner makes it; ``extended`` is its number of devices as an extended resource."""
    resources: Json = {"requests": {"cpu": cpu, **({"memory": memory} if memory else {})}}
    if extended:
        resources["limits"] = {EXTENDED_RESOURCE: str(extended)}
        resources["requests"] |= resources["limits"]
    if claims:
        resources["claims"] = [{"name": each} for each in claims]
    container = {"name": "notebook", "image": image, "resources": resources}
    if requires_ready:
        spec["affinity"] = requiring_readiness(spec.get("affinity", {}))
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {names.COMPONENT: names.USER_SERVER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def preferring(node: str) -> Json:
    """Affinity of a pod that prefers a node, as the spawner writes it."""
    terms = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    preferred = [{"weight": 100, "preference": {"matchFields": terms}}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def user_shape(claims: Mapping[str, Json] | None = None, cpu: str = "1", **spec: Any) -> Shape:
    """The shape of a user's pod."""
    return shape_of(user_manifest("anybody", claims or (), cpu, **spec), claims or {}, frozenset((names.IMAGES_READY,)))


def node_objects(
    name: str,
    cpu: str,
    gpus: int,
    memory: str,
    images: Iterable[str],
    created: str,
    labels: Mapping[str, str] | None = None,
) -> list[Json]:
    """A node and the slice of its driver; with ``memory`` its GPUs can be shared."""
    named = {"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": f"g{gpus}", **(labels or {})}
    node = {
        "kind": "Node",
        "metadata": {"name": name, "labels": named, "creationTimestamp": created},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "100Gi", "pods": "110"},
            "images": [{"names": [each], "sizeBytes": 1} for each in images],
        },
    }
    return [node, *([gpu_slice(name, gpus, memory)] if gpus else [])]


def gpu_slice(node: str, gpus: int, memory: str) -> Json:
    """A slice as the driver publishes it."""
    shared: Json = {"allowMultipleAllocations": True} if memory else {}
    if memory:
        policy = {"default": memory, "validRange": {"min": "5Gi", "step": "5Gi"}}
        shared["capacity"] = {"memory": {"value": memory, "requestPolicy": policy}}
    devices = [{"name": f"gpu-{index}", **shared} for index in range(gpus)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}


PLAIN = user_shape()
GPU = user_shape({"gpu": gpu_claim()})
SHARE = user_shape({"gpu": share_claim("10Gi")})
