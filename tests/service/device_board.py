"""Nodes with devices, users and placeholders in every state, for the page that shows them."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from dra_spawner import names
from dra_spawner.devcluster.demo.example_nodes import GPU_DRIVER, PARTITIONED_NODE, example_nodes, resource_slices
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.integration.devices import DRIVER, classes, node_with, shareable, whole
from tests.service.unstarted_watch import UnstartedWatch

__all__ = ["NAMESPACE", "allocate", "many_nodes", "put_all", "some_of_all"]

NAMESPACE: Final = "jupyterhub"
Json = dict[str, Any]


def put_all(watch: ClusterWatch, *objects: Json) -> None:
    """Put objects of all kinds."""
    for each in objects:
        watch.put(Kind(each["kind"]), each)


def allocate(
    watch: ClusterWatch,
    user: str,
    node: str,
    device: str,
    memory: str = "",
    *,
    driver: str = DRIVER,
    reserved_for: str = "",
) -> ObjectKey:
    """Give a device, or a share of it, to a user's server; to a placeholder without a user.

    Returns
    -------
    ObjectKey
        The claim.
    """
    kind = "placeholder" if not user else "jupyter"
    number = len(watch.snapshot.claims)
    pod_name = f"{kind}-{number}"
    result: Json = {"driver": driver, "pool": node, "device": device, "request": "gpu"}
    if memory:
        share_id = f"00000000-0000-4000-8000-{number:012}"
        result |= {"shareID": share_id, "consumedCapacity": {"memory": memory}}
    labels = {names.COMPONENT: names.USER_SERVER if user else names.PLACEHOLDER}
    labels |= {names.PROFILE: "gpu-slice"} if user else {names.SHAPE: "0" * 16}
    claim_labels: Json = {} if user else {names.SHAPE: "0" * 16}
    if reserved_for:
        claim_labels |= {names.RESERVED_FOR: reserved_for, names.RESERVED_UNTIL: "1999999999"}
    claim_name = f"{pod_name}-gpu"
    pod: Json = {
        "kind": "Pod",
        "metadata": {"name": pod_name, "namespace": NAMESPACE, "uid": pod_name, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "example.com/notebook:1"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
        "status": {"phase": "Running"},
    }
    if user:
        pod["metadata"]["annotations"] = {names.USERNAME: user}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": claim_name, "namespace": NAMESPACE, "uid": claim_name, "labels": claim_labels},
        "spec": {"devices": {"requests": [request]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": pod_name, "uid": pod_name}],
        },
    }
    put_all(watch, pod, claim)
    return ObjectKey(NAMESPACE, claim_name)


def labelled(node: list[Json], **labels: str) -> list[Json]:
    """The objects of a node with further labels; ``__`` stands for a slash, as in names of labels."""
    node[0]["metadata"].setdefault("labels", {}).update(labels)
    return node


def some_of_all(user: str = "ada", pool: str = "whole") -> ClusterWatch:
    """A small cluster with nodes, devices and shares in all states.

    Parameters
    ----------
    user, pool
        Names of a user and of a pool, which may be hostile.
    """
    watch = UnstartedWatch()
    put_all(watch, *classes())
    shared = [shareable(f"gpu-{number}") for number in range(4)]
    put_all(watch, *labelled(node_with("shared-1", *shared), **{"pool": "shared", names.IMAGES_READY: names.TRUE}))
    newest = {"pool": "shared", names.IMAGES_READY: names.TRUE, names.ATTRACT: names.TRUE}
    put_all(watch, *labelled(node_with("shared-2", *shared), **newest))
    selector = {"driver": DRIVER, "pool": "shared-2", "device": "gpu-2"}
    drain = {"deviceSelector": selector, "taint": {"key": names.DRAINED_DEVICE, "effect": "NoSchedule"}}
    put_all(watch, {"kind": "DeviceTaintRule", "metadata": {"name": "drain"}, "spec": drain})
    draining = {"pool": pool, names.IMAGES_READY: names.LATE, names.DRAINING: names.ORDERED}
    put_all(watch, *labelled(node_with("whole-1", *(whole(f"gpu-{number}") for number in range(8))), **draining))
    cordoned = node_with("whole-2", *(whole(f"gpu-{number}") for number in range(8)))
    cordoned[0]["spec"]["unschedulable"] = True
    put_all(watch, *labelled(cordoned, pool="whole"))
    unknown = node_with("unknown-1", whole("gpu-0"))
    unknown[1]["spec"]["pool"]["resourceSliceCount"] = 2
    put_all(watch, *unknown, *node_with("without-devices"))
    put_all(watch, *(each for each in example_nodes() if each["metadata"]["name"] == PARTITIONED_NODE))
    put_all(watch, *(each for each in resource_slices() if each["spec"].get("nodeName") == PARTITIONED_NODE))
    allocate(watch, user, "shared-1", "gpu-0", "10Gi")
    allocate(watch, "eve", "shared-1", "gpu-0", "5Gi")
    allocate(watch, "", "shared-1", "gpu-0", "10Gi")
    allocate(watch, "bob", "shared-1", "gpu-1", "40Gi")
    allocate(watch, "", "shared-2", "gpu-0", "10Gi")
    allocate(watch, "", "shared-2", "gpu-1", "10Gi", reserved_for="jupyter-grace")
    for number, each in enumerate(("carl", "dora", "emil")):
        allocate(watch, each, "whole-1", f"gpu-{number}")
    allocate(watch, "", "whole-1", "gpu-5")
    allocate(watch, "fred", PARTITIONED_NODE, "gpu-0-mig-1g5gb-19-0", driver=GPU_DRIVER)
    allocate(watch, "", PARTITIONED_NODE, "gpu-0-mig-3g20gb-9-4", driver=GPU_DRIVER)
    for start in range(7):
        allocate(watch, f"student-{start}", PARTITIONED_NODE, f"gpu-1-mig-1g5gb-19-{start}", driver=GPU_DRIVER)
    return watch


def many_nodes(count: int, devices: int = 8) -> ClusterWatch:
    """A big cluster: nodes of two pools, with shared devices, most of which are in use by several users."""
    watch, random = UnstartedWatch(), Random(17)
    put_all(watch, *classes())
    for number in range(count):
        name = f"node-{number:04}"
        shared = [shareable(f"gpu-{each}") for each in range(devices)]
        pool = f"pool-{number % 5}"
        put_all(watch, *labelled(node_with(name, *shared), pool=pool, **{names.IMAGES_READY: names.TRUE}))
        for each in range(devices):
            for share in range(random.choice((0, 1, 2, 4))):
                user = f"user-{number}-{each}-{share}" if random.random() < 0.7 else ""
                allocate(watch, user, name, f"gpu-{each}", "10Gi")
    return watch
