"""A control plane with an audit log, nodes with GPUs, and the pods of installed charts as processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.demo.example_nodes import device_classes
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.devcluster.kubelet.pod_addresses import LoopbackAddresses
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.chart.applied import create_object, replace_object
from tests.chart.audit_log import Access, accesses, audit_arguments
from tests.chart.pod_network import PodNetwork
from tests.chart.pod_programs import ChartRuntime
from tests.cluster.access import account_token
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.object_paths import has_namespace
from tests.integration import network_definitions
from tests.integration.devices import classes, image_list, node_with, priority_class, shareable
from tests.integration.fork_server import fork_program

#: The image of users' servers, which all nodes have.
SERVER_IMAGE = "this-machine/quick-server:1"
#: A PriorityClass whose pods wait: kube-scheduler preempts no placeholder for them, so the service does.
PATIENT = "patient"
_CLIENT_QPS = 500
#: This machine may be busy with other things.
_ANSWER_SECONDS = 60.0
_LOG_CHARACTERS = 2000
_RESOURCE = "resource.k8s.io/v1"

T = TypeVar("T")


class WholeCluster:
    """See the module; use `whole_cluster`."""

    def __init__(self, plane: ControlPlane, loop: BackgroundLoop, directory: Path) -> None:
        self.plane = plane
        self.directory = directory
        self._loop = loop
        self._addresses = LoopbackAddresses()
        self.api: KubernetesApi
        self.network: PodNetwork
        self.runtime: ChartRuntime
        self._kubelet: Kubelet

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something where the cluster runs."""

        async def await_it() -> T:
            return await work()

        return self._loop.run(await_it(), 540)

    async def start(self, *, has_gpu_nodes: bool = True) -> None:
        """The kubelet, and its nodes: one for hub and service, and two with GPUs unless a test brings its own."""
        self.api = await KubernetesApi.from_kubeconfig(self.plane.admin_kubeconfig, timeout_seconds=_ANSWER_SECONDS)
        self.network = PodNetwork(self.api, self.directory, self._addresses)
        self.runtime = ChartRuntime(self.plane, self.api, self.network, self.directory)
        self._kubelet = Kubelet(
            self.api, runtime=self.runtime, addresses=self._addresses, directory=self.directory / "kubelet"
        )
        await self._kubelet.start()
        await self._kubelet.add_node(node_manifest("core", labels={"hub.jupyter.org/node-purpose": "core"}))
        for name in ("node-a", "node-b") if has_gpu_nodes else ():
            node, devices = node_with(name, shareable("gpu-0"), shareable("gpu-1"))
            node["status"]["images"] = image_list([SERVER_IMAGE])
            await self._kubelet.add_node(node)
            await self.api.create(resource_path(_RESOURCE, "resourceslices"), devices)
        for each in classes() if has_gpu_nodes else device_classes():
            await self.api.create(resource_path(_RESOURCE, "deviceclasses"), each)
        definitions = resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
        await self.api.create(definitions, network_definitions.DEFINITION)
        patient = priority_class(PATIENT, 0, preemptionPolicy="Never")
        await self.api.create(resource_path("scheduling.k8s.io/v1", "priorityclasses"), patient)
        await self._kubelet.wait_schedulable()

    async def stop(self) -> None:
        """End all processes."""
        await self._kubelet.stop()
        await self.network.stop()
        await self.api.close()

    async def install(self, objects: list[JsonObject], namespace: str) -> None:
        """Create the objects of a release. Deployments are made for real, and their pods run."""
        for obj in objects:
            _complete(obj, namespace)
            created = await create_object(self.api, obj)
            if obj["kind"] == "Service":
                await self.network.serve(created)

    async def upgrade(self, objects: list[JsonObject], namespace: str) -> None:
        """Replace the objects that a hub reads, and restart its pods if they have changed."""
        for obj in objects:
            if obj["kind"] in ("ConfigMap", "Deployment", "Secret"):
                _complete(obj, namespace)
                await replace_object(self.api, obj)

    async def kubeconfig_of(self, namespace: str, account: str) -> Path:
        """Of an account, for a program that runs in no pod."""
        token = await account_token(self.api, namespace, account)
        path = self.directory / f"{namespace}-{account}.kubeconfig"
        return self.plane.write_kubeconfig(path, token, namespace=namespace)

    async def items(self, plural: str, namespace: str) -> list[JsonObject]:
        """All objects of a kind."""
        group = _RESOURCE if plural.startswith("resourceclaim") else "v1"
        found: list[JsonObject] = (await self.api.list(resource_path(group, plural, namespace)))["items"]
        return found

    def accesses(self) -> set[Access]:
        """Requests of accounts to the API server so far."""
        return set(accesses(self.directory))

    def logs(self) -> str:
        """Warnings of the cluster, and ends of the logs of all programs, for a failure."""
        warnings = {
            f"{each['involvedObject'].get('name')}: {each['message']}"
            for each in self.plane.request("GET", "/api/v1/events?fieldSelector=type=Warning")["items"]
        }
        logs = (f"--- {name}\n{log.read_text()[-_LOG_CHARACTERS:]}" for name, log in self.runtime.logs.items())
        return "\n".join((*sorted(warnings), *logs))


def _complete(obj: JsonObject, namespace: str) -> None:
    if has_namespace(obj["kind"]):
        obj["metadata"].setdefault("namespace", namespace)
    if obj["kind"] == "Deployment":
        for container in obj["spec"]["template"]["spec"]["containers"]:
            address = {"fieldRef": {"fieldPath": "status.podIP"}}
            container["env"] = [{"name": "POD_IP", "valueFrom": address}, *container.get("env", ())]


@contextmanager
def whole_cluster(
    binary: Path, loop: BackgroundLoop, directory: Path, *, has_gpu_nodes: bool = True
) -> Iterator[WholeCluster]:
    """A cluster for some releases."""
    plane = ControlPlane(
        binary, directory / "plane", client_qps=_CLIENT_QPS, api_server_arguments=audit_arguments(directory)
    )
    # From this thread, as the server of forks ends with the one that starts it.
    fork_program(
        "tests.chart.in_pod", ["-c", ""], directory=directory, log=directory / "fork.log", environment={}
    ).wait()
    with plane:
        cluster = WholeCluster(plane, loop, directory)

        async def start() -> None:
            await cluster.start(has_gpu_nodes=has_gpu_nodes)

        loop.run(start())
        try:
            yield cluster
            plane.check()
        finally:
            loop.run(cluster.stop())


async def gathered(*work: Awaitable[Any]) -> list[Any]:
    """All results."""
    return list(await asyncio.gather(*work))
