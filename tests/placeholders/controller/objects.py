"""Claims, users' pods and nodes for a cluster under test, and the cluster before its first node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.hypothetical_pods import requiring_readiness
from dra_spawner.placeholders.planner.shapes import Shape, shape_of
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, priority_class

IMAGE = "example.com/notebook:1"

Json = dict[str, Any]


def claim_spec(device_class: str = "gpu.example.com", memory: str = "") -> Json:
    exactly: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def user_pod(
    name: str,
    entries: Mapping[str, Json],
    cpu: str = "1",
    ready: bool = True,
    gates: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    image: str = IMAGE,
    volumes: Sequence[Json] = (),
) -> Json:
    """A user's pod; ``entries`` gives the template or the claim of each entry."""
    resources: Json = {"requests": {"cpu": cpu}, "limits": dict(limits or {})}
    if entries:
        resources["claims"] = [{"name": entry} for entry in entries]
    container: Json = {"name": "notebook", "image": image, "resources": resources}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if volumes:
        # A kubelet leaves out devices that no container mounts.
        container["volumeMounts"] = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
        spec["volumes"] = list(volumes)
    if entries:
        spec["resourceClaims"] = [{"name": entry, **source} for entry, source in entries.items()]
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if ready:
        spec["affinity"] = requiring_readiness({})
    metadata = {"name": name, "labels": {names.COMPONENT: names.USER_SERVER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def shape(claims: Mapping[str, Json], cpu: str = "1", **kind: Any) -> Shape:
    pod = user_pod("anybody", {entry: {} for entry in claims}, cpu, **kind)
    return shape_of(pod, claims, frozenset((names.IMAGES_READY,)))


def node(name: str, *devices: Json, images: Sequence[str] = (IMAGE,)) -> list[Json]:
    """A node that has the image, with devices."""
    return node_with(name, *devices, images=images)


WHOLE = {"gpu": claim_spec()}
SHARE = {"gpu": claim_spec("gpu-share.example.com", "10Gi")}


async def prepare(cluster: ClusterUnderTest, *objects: Json) -> None:
    """A kubelet, device classes, the placeholders' priority, and more."""
    await cluster.start_kubelet(fake=True)
    await cluster.publish(*classes(), priority_class(), *objects)
