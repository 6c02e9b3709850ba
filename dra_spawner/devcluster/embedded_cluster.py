"""A Kubernetes in this process: store, API server, controllers, scheduler and kubelet.

async with EmbeddedCluster(directory) as cluster:
    cluster.publish(example_objects())
    ...  # any Kubernetes client, with cluster.kubeconfig
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random as random_module
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.http.server import ApiServer
from dra_spawner.devcluster.api.resource_types import NODES, by_kind
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import Clock, ScaledClock
from dra_spawner.devcluster.controllers.claim_controller import ClaimController
from dra_spawner.devcluster.controllers.taint_eviction import TaintEviction
from dra_spawner.devcluster.kubelet.container_runtime import ContainerRuntime
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.devcluster.kubelet.node_agent import complete_node
from dra_spawner.devcluster.scheduler.scheduler import Scheduler
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError

log = logging.getLogger(__name__)


class EmbeddedCluster:
    """A cluster in this process; all its objects are lost when it stops.

    It runs in the event loop of `start`; other threads use its API only.

    Parameters
    ----------
    directory
        Directory of the kubeconfig, and of logs and volumes of pods; created if missing.
    clock
        Clock of the cluster; wall time if None.
    run_pods
        Whether to run the pods of all nodes. False leaves nodes and pods to a `Kubelet` of the caller.
    runtime
        Runtime of containers; local processes if None.
    random
        Random numbers for generated names, and for the choice between equal nodes.
    kubelet_options
        Further arguments of `Kubelet`.

    Attributes
    ----------
    store
        The objects; only for the thread of the event loop.
    kubeconfig
        Kubeconfig for clients; readable by its owner only.
    logs
        Function that returns a pod's log, for `ApiServer`; can be set.
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        run_pods: bool = True,
        runtime: ContainerRuntime | None = None,
        random: random_module.Random | None = None,
        kubelet_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self.clock: Clock = clock or ScaledClock()
        self.store = Store(self.clock.now, random=random)
        self.token = secrets.token_urlsafe(32)
        self.logs: Callable[[JsonObject, str], str | None] = lambda pod, container: None
        self._server = ApiServer(self.store, self.token, logs=lambda pod, container: self.logs(pod, container))
        self._controllers = (
            ClaimController(self.store, self.clock),
            TaintEviction(self.store, self.clock),
            Scheduler(self.store, self.clock, random=random),
        )
        self._run_pods = run_pods
        self._runtime = runtime
        self._kubelet_options = dict(kubelet_options or {})
        self._kubelet: Kubelet | None = None
        self._node_changes: asyncio.Queue[WatchEvent] = asyncio.Queue()
        self._running: contextlib.AsyncExitStack | None = None

    @property
    def url(self) -> str:
        """Address of the API server; empty until it is started."""
        return self._server.url

    async def start(self, port: int = 0) -> str:
        """Start all parts.

        Parameters
        ----------
        port
            Port of the API server on 127.0.0.1; 0 for any free port.

        Returns
        -------
        str
            Address of the API server.
        """
        async with contextlib.AsyncExitStack() as stack:
            url = await self._server.start(port)
            stack.push_async_callback(self._server.stop)
            self._write_kubeconfig()
            stack.callback(self.kubeconfig.unlink, missing_ok=True)
            for controller in self._controllers:
                controller.start()
                stack.push_async_callback(controller.stop)
            if self._run_pods:
                await self._start_kubelet(stack)
            self._running = stack.pop_all()
        return url

    async def stop(self) -> None:
        """Stop all pods, and then all parts. Idempotent."""
        if self._running is not None:
            running, self._running = self._running, None
            await running.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def publish(self, objects: Iterable[JsonObject], namespace: str = "default") -> list[JsonObject]:
        """Create objects in order; nodes become ready at once.

        Parameters
        ----------
        namespace
            Namespace of objects without one.

        Raises
        ------
        ApiError
            If an object is refused; the objects before it stay.
        """
        created = []
        for obj in objects:
            resource_type = by_kind(obj["apiVersion"], obj["kind"])
            if resource_type is None:
                raise ValueError(f"the embedded cluster has no {obj['apiVersion']} {obj['kind']}")
            home = (obj["metadata"].get("namespace") or namespace) if resource_type.namespaced else None
            complete = complete_node(obj, self.clock) if resource_type is NODES else obj
            created.append(self.store.create(resource_type, complete, home))
        return created

    async def _start_kubelet(self, stack: contextlib.AsyncExitStack) -> None:
        api = await KubernetesApi.from_kubeconfig(self.kubeconfig)
        stack.push_async_callback(api.close)
        options = {"directory": self.directory / "kubelet", **self._kubelet_options}
        kubelet = Kubelet(api, clock=self.clock, runtime=self._runtime, **options)
        self.logs = kubelet.read_log
        stack.push_async_callback(kubelet.stop)
        await kubelet.start()
        for node in self.store.objects(NODES):
            self._node_changes.put_nowait(WatchEvent(WatchEventType.ADDED, NODES, node, None, 0))
        stack.callback(self.store.subscribe(self._note_node))
        task = asyncio.get_running_loop().create_task(self._serve_nodes(kubelet), name="nodes to serve")
        stack.push_async_callback(_cancelled, task)

    def _note_node(self, event: WatchEvent) -> None:
        if event.resource_type is NODES and event.type is not WatchEventType.MODIFIED:
            self._node_changes.put_nowait(event)

    async def _serve_nodes(self, kubelet: Kubelet) -> None:
        """Run the pods of each new node, and end those of each deleted node."""
        while True:
            event = await self._node_changes.get()
            node = event.object
            name = node["metadata"]["name"]
            try:
                if event.type is WatchEventType.DELETED:
                    await kubelet.remove_node(name)
                elif name not in kubelet.node_names:
                    labels = node["metadata"].get("labels") or {}
                    metadata = {"name": name, "labels": dict(labels)}
                    await kubelet.add_node({**node, "metadata": metadata})
            except KubernetesError as error:
                log.warning("A node cannot be served: node=%s error=%s", name, error)

    def _write_kubeconfig(self) -> None:
        # kubectl sends no token over plain HTTP, so the address includes it.
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "embedded", "cluster": {"server": self._server.url_with_token}}],
            "users": [{"name": "administrator", "user": {"token": self.token}}],
            "contexts": [
                {
                    "name": "embedded",
                    "context": {"cluster": "embedded", "user": "administrator", "namespace": "default"},
                }
            ],
            "current-context": "embedded",
        }
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        file = os.open(self.kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w") as stream:
            json.dump(config, stream, indent=1)  # JSON is YAML


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
