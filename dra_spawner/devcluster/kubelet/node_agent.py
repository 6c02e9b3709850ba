"""The Node objects of a development cluster: registration, heartbeats and images."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Collection, Iterable

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import Clock, micro_timestamp, timestamp
from dra_spawner.devcluster.kubelet.images import IMAGE_SIZE_BYTES, normalized_image
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, PatchType, resource_path

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
# As in the kubelet: Leases are renewed every 10 s; the node controller marks a node unreachable after 50 s.
HEARTBEAT_SECONDS = 10.0
_LEASE_DURATION_SECONDS = 40
_POLL_SECONDS = 0.05
_NOT_READY_TAINTS = (names.NOT_READY, names.UNREACHABLE)

_DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def node_manifest(
    name: str,
    *,
    capacity: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    taints: Iterable[JsonObject] = (),
    images: Collection[str] = (),
) -> JsonObject:
    """A Node object to register; `complete_node` adds the rest.

    Parameters
    ----------
    capacity
        Capacity in addition to the default of 8 CPUs, 32 GiB of memory and 110 pods; a value replaces a default.
    images
        Names of images that the node has from the start.
    """
    node: JsonObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {},
        "status": {"capacity": {**_DEFAULT_CAPACITY, **(capacity or {})}},
    }
    if taints := list(taints):
        node["spec"]["taints"] = taints
    if images:
        node["status"]["images"] = [image_entry(image) for image in images]
    return node


def image_entry(image: str) -> JsonObject:
    """``ContainerImage`` of core/v1."""
    return {"names": [normalized_image(image)], "sizeBytes": IMAGE_SIZE_BYTES}


def complete_node(node: JsonObject, clock: Clock) -> JsonObject:
    """`node` with the status of a healthy node."""
    node = copy.deepcopy(node)
    node |= {"apiVersion": "v1", "kind": "Node"}
    metadata = node["metadata"]
    name = metadata["name"]
    metadata["labels"] = {
        names.HOSTNAME: name,
        names.OS: "linux",
        names.ARCH: "amd64",
        **(metadata.get("labels") or {}),
    }
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    status["capacity"] = {**_DEFAULT_CAPACITY, **(status.get("capacity") or {})}
    status.setdefault("allocatable", dict(status["capacity"]))
    status.setdefault(
        "addresses", [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]
    )
    status.setdefault("images", [])
    status["nodeInfo"] = {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "process://1",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.37.2",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "development node",
        "systemUUID": "",
        **(status.get("nodeInfo") or {}),
    }
    status["conditions"] = ready_conditions(clock)
    return node


def ready_conditions(clock: Clock) -> list[JsonObject]:
    now = timestamp(clock.now())
    pressures = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    conditions = [
        {"type": condition, "status": "False", "reason": reason, "message": message}
        for condition, reason, message in pressures
    ]
    conditions.append(
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    )
    return [{**condition, "lastHeartbeatTime": now, "lastTransitionTime": now} for condition in conditions]


class NodeAgent:
    """Registers nodes and renews their Leases.

    Attributes
    ----------
    nodes
        The last known Node objects, by name.
    """

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self.nodes: dict[str, JsonObject] = {}
        self._images_written = asyncio.Lock()

    async def register(self, node: JsonObject) -> JsonObject:
        """Create the Node object, or adopt the existing one, and its Lease; return the object.

        Raises
        ------
        KubernetesError
            If it cannot be created.
        """
        node = complete_node(node, self._clock)
        name = node["metadata"]["name"]
        try:
            present = await self._api.create(resource_path("v1", "nodes"), node)
        except KubernetesError as error:
            if not error.already_exists:
                raise
            path = resource_path("v1", "nodes", name=name)
            await self._api.patch(path, {"metadata": {"labels": node["metadata"]["labels"]}})
            present = await self._api.patch(
                resource_path("v1", "nodes", name=name, subresource="status"), {"status": node["status"]}
            )
        self.nodes[name] = present
        await self._renew_lease(name)
        return present

    async def remove(self, name: str) -> None:
        """Delete the Node object and its Lease."""
        self.nodes.pop(name, None)
        await self._api.delete(resource_path("v1", "nodes", name=name), missing_ok=True)
        await self._api.delete(resource_path(names.COORDINATION_API, "leases", LEASE_NAMESPACE, name), missing_ok=True)

    async def heartbeat_forever(self) -> None:
        """Renew the Leases, so that no node becomes unreachable."""
        while True:
            # Real time, as a node controller has a real clock.
            await asyncio.sleep(HEARTBEAT_SECONDS)
            for name in list(self.nodes):
                try:
                    await self._renew_lease(name)
                except KubernetesError as error:
                    log.warning("Heartbeat failed: node=%s error=%s", name, error)

    async def add_image(self, name: str, image: str) -> None:
        """Report one more image of a node.

        One report at a time: an earlier one that arrives late would take the later image away.
        """
        node = self.nodes.get(name)
        if node is None:
            return
        node["status"]["images"] = [*(node["status"].get("images") or []), image_entry(image)]
        async with self._images_written:
            await self._api.patch(
                resource_path("v1", "nodes", name=name, subresource="status"),
                {"status": {"images": node["status"]["images"]}},
            )

    async def wait_schedulable(self, timeout_seconds: float = 30.0) -> None:
        """Wait until the control plane sees all nodes as ready; it taints new nodes for a moment.

        Raises
        ------
        TimeoutError
            If a node is not ready after `timeout_seconds`.
        """
        async with asyncio.timeout(timeout_seconds):
            while True:
                present = (await self._api.list(resource_path("v1", "nodes")))["items"]
                tainted = {
                    node["metadata"]["name"]
                    for node in present
                    if any(taint["key"] in _NOT_READY_TAINTS for taint in node["spec"].get("taints") or [])
                }
                missing = self.nodes.keys() - {node["metadata"]["name"] for node in present}
                if not missing and not tainted & self.nodes.keys():
                    return
                await asyncio.sleep(_POLL_SECONDS)

    async def _renew_lease(self, name: str) -> None:
        now = micro_timestamp(self._clock.now())
        path = resource_path(names.COORDINATION_API, "leases", LEASE_NAMESPACE, name)
        try:
            await self._api.patch(path, {"spec": {"renewTime": now}}, patch_type=PatchType.MERGE)
        except KubernetesError as error:
            if not error.not_found:
                raise
        else:
            return
        node = self.nodes[name]
        lease = {
            "apiVersion": names.COORDINATION_API,
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}],
            },
            "spec": {"holderIdentity": name, "leaseDurationSeconds": _LEASE_DURATION_SECONDS, "renewTime": now},
        }
        leases = resource_path(names.COORDINATION_API, "leases", LEASE_NAMESPACE)
        try:
            await self._api.create(leases, lease)
        except KubernetesError as error:
            if not error.not_found:
                raise
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
            try:
                await self._api.create(resource_path("v1", "namespaces"), namespace)
            except KubernetesError as other:
                if not other.already_exists:
                    raise
            await self._api.create(leases, lease)
