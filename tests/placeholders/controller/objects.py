"""Claims, users' pods and nodes for a cluster under test, and the cluster before its first node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.node_conditions import refusing_drained_nodes
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of
from dra_spawner.spawner.placement.pod import after_placeholder
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import classes, node_with, priority_class
from tests.placeholders.planner.objects import gpu_claim, user_manifest

IMAGE = "example.com/notebook:1"

Json = dict[str, Any]


def claim_spec(device_class: str = "gpu.example.com", memory: str = "") -> Json:
    capacity = {"capacity": {"requests": {"memory": memory}}} if memory else {}
    return gpu_claim(deviceClassName=device_class, allocationMode="ExactCount", **capacity)


def user_pod(
    name: str,
    entries: Mapping[str, Json],
    cpu: str = "1",
    ready: bool = True,
    gates: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    image: str = IMAGE,
    volumes: Sequence[Json] = (),
    after: str = "",
    mark: str | None = None,
) -> Json:
    """A user's pod in the namespace of the test; ``entries`` gives the template or the claim of each entry.

    ``after`` is the placeholder that must be gone before the pod is bound; ``mark`` the pod's own, with which it refuses drained nodes.
    """
    pod = user_manifest(name, entries, cpu, ready, memory="", image=image, terminationGracePeriodSeconds=0)
    del pod["metadata"]["namespace"]
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    container["resources"]["limits"] = dict(limits or {})
    if volumes:
        # A kubelet leaves out devices that no container mounts.
        container["volumeMounts"] = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
        spec["volumes"] = list(volumes)
    if entries:
        spec["resourceClaims"] = [{"name": entry, **source} for entry, source in entries.items()]
    if mark is not None:
        spec["affinity"] = refusing_drained_nodes(spec.get("affinity", {}), mark)
    if after:
        spec["affinity"] = after_placeholder(spec.get("affinity", {}), after)
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return pod


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
