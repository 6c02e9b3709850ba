"""The embedded kubelet: serves nodes that exist only as objects, with pods that are local processes.

It works over the API, so it serves the embedded cluster and a real control plane alike. `device_environment` describes
what a pod's processes see of their devices, and `pod_volumes` where their volumes are.

It does not isolate processes, limit resources, pull images, probe containers (a running container is ready), run
life-cycle hooks, or resize pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import Clock, ScaledClock
from dra_spawner.devcluster.kubelet.container_runtime import ContainerRuntime, ProcessRuntime
from dra_spawner.devcluster.kubelet.images import (
    IMAGE_SIZE_BYTES,
    PullFailed,
    PullSeconds,
    has_image,
    instant_pull,
    must_pull,
)
from dra_spawner.devcluster.kubelet.node_agent import NodeAgent
from dra_spawner.devcluster.kubelet.pod_addresses import LoopbackAddresses, PodAddresses
from dra_spawner.devcluster.kubelet.pod_events import EventRecorder
from dra_spawner.devcluster.kubelet.pod_needs import PodServices
from dra_spawner.devcluster.kubelet.pod_volumes import NodeDirectories
from dra_spawner.devcluster.kubelet.pod_worker import PodWorker
from dra_spawner.devcluster.kubelet.prepared_claims import PreparedClaims
from dra_spawner.dra.preparation import PreparedFor
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, ResourceExpired, WatchEventType, resource_path
from dra_spawner.profiles.drivers import drivers_prepare_for as known_preparation

log = logging.getLogger(__name__)

_PODS = resource_path("v1", "pods")
_WATCH_SECONDS = 300
_FIRST_RETRY_SECONDS = 0.1
_LONGEST_RETRY_SECONDS = 5.0


class Kubelet:
    """Serves a set of nodes.

    Parameters
    ----------
    nodes
        Node objects to register at the start; `node_agent.node_manifest` builds one.
    runtime
        Runtime of containers; `ProcessRuntime` if None.
    clock
        Clock of fake pulls, delays, back-off and timestamps. The grace period of a termination is in real time, as the
        processes are real.
    addresses
        Source of ``podIP``; if None, each pod has an address of its own in 127.0.0.0/8 (on Linux; elsewhere 127.0.0.1).
    directory
        Directory of logs and volumes; if None, a temporary directory, which is removed at the end.
    pull_seconds
        Duration of a pull of an image to a node; may raise `PullFailed`.
    start_seconds
        Further duration of a pod's start.
    refuse_devices
        Returns the driver's message if a pod's devices cannot be prepared; empty if they can. Called at each try.
    drivers_prepare_for
        What drivers prepare claims for, by name; None: what is known of real drivers. Others prepare for the claim.
    events
        Whether to write Event objects.
    """

    def __init__(
        self,
        api: KubernetesApi,
        nodes: Iterable[JsonObject] = (),
        *,
        runtime: ContainerRuntime | None = None,
        clock: Clock | None = None,
        addresses: PodAddresses | None = None,
        directory: Path | None = None,
        pull_seconds: PullSeconds = instant_pull,
        start_seconds: Callable[[JsonObject], float] = lambda pod: 0.0,
        refuse_devices: Callable[[JsonObject], str] = lambda pod: "",
        drivers_prepare_for: Mapping[str, PreparedFor] | None = None,
        events: bool = True,
    ) -> None:
        self._api = api
        self._first_nodes = list(nodes)
        self._clock: Clock = clock or ScaledClock()
        self._pull_seconds = pull_seconds
        self._temporary = tempfile.TemporaryDirectory(prefix="dra-kubelet-") if directory is None else None
        self._directories = NodeDirectories(Path(self._temporary.name) if self._temporary else directory or Path())
        self._agent = NodeAgent(api, self._clock)
        self._events = EventRecorder(api, self._clock, enabled=events)
        self._pull_locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._services = PodServices(
            api=api,
            clock=self._clock,
            runtime=runtime or ProcessRuntime(),
            addresses=addresses or LoopbackAddresses(),
            directories=self._directories,
            events=self._events,
            node=lambda name: self._agent.nodes.get(name, {}),
            pull=self._pull,
            start_seconds=start_seconds,
            refuse_devices=refuse_devices,
            prepared=PreparedClaims(known_preparation() if drivers_prepare_for is None else drivers_prepare_for),
        )
        self._workers: dict[str, tuple[PodWorker, asyncio.Task[None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(self._agent.nodes)

    async def start(self) -> None:
        """Register the nodes and begin to serve them.

        Raises
        ------
        KubernetesError
            If a node cannot be registered.
        """
        for node in self._first_nodes:
            await self._agent.register(node)
        self._events.start()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._agent.heartbeat_forever(), name="node heartbeats"),
            loop.create_task(self._watch_forever(), name="pod watch"),
        ]

    async def stop(self) -> None:
        """End all processes and stop serving; the objects stay in the API."""
        await _cancel(self._tasks)
        self._tasks = []
        await _cancel([task for _, task in self._workers.values()])
        self._workers.clear()
        await self._events.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def add_node(self, node: JsonObject) -> JsonObject:
        """Register and serve one more node; return its object in the API."""
        registered = await self._agent.register(node)
        # The watch may have skipped pods that were bound to the node before its registration.
        for pod in (await self._api.list(_PODS))["items"]:
            if pod["metadata"]["uid"] not in self._workers:
                self._handle(WatchEventType.ADDED, pod)
        return registered

    async def remove_node(self, name: str) -> None:
        """Remove a node: end its processes, and delete it and its pods from the API."""
        removed = [worker for worker, _ in self._workers.values() if worker.pod["spec"]["nodeName"] == name]
        tasks = [task for worker, task in self._workers.values() if worker in removed]
        for worker in removed:
            worker.gone()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in removed:
            metadata = worker.pod["metadata"]
            path = resource_path("v1", "pods", metadata["namespace"], metadata["name"])
            with contextlib.suppress(KubernetesError):
                await self._api.delete(path, grace_period_seconds=0, uid=metadata["uid"], missing_ok=True)
        await self._agent.remove(name)

    async def add_image(self, node_name: str, image: str) -> None:
        """Let a node have an image that no pod of it has pulled."""
        await self._agent.add_image(node_name, image)

    async def wait_schedulable(self, timeout_seconds: float = 30.0) -> None:
        """Wait until the control plane sees all nodes as ready. Raises TimeoutError."""
        await self._agent.wait_schedulable(timeout_seconds)

    def read_log(self, pod: JsonObject, container: str) -> str | None:
        """Output of a container since its last start, for ``pods/log``; None if the container is unknown."""
        worker, _ = self._workers.get(pod["metadata"]["uid"], (None, None))
        if worker is None:
            return None
        for state in (*worker.state.init_containers, *worker.state.containers):
            if state.name == container:
                path = self._directories.log(pod, container, state.restart_count)
                return path.read_text(errors="replace") if path.exists() else ""
        return None

    async def _watch_forever(self) -> None:
        delay = _FIRST_RETRY_SECONDS
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._adopt()
                async for event_type, pod in self._api.watch(
                    _PODS, resource_version=version, bookmarks=True, watch_seconds=_WATCH_SECONDS
                ):
                    version = pod["metadata"]["resourceVersion"]
                    self._handle(event_type, pod)
                    delay = _FIRST_RETRY_SECONDS
            except ResourceExpired:
                version = None
            except KubernetesError as error:
                log.warning("Pods cannot be watched; trying again: delay_seconds=%g error=%s", delay, error)
                version = None
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_RETRY_SECONDS)

    async def _adopt(self) -> str:
        """Start and stop workers to match the listed pods; return the list's version."""
        answer = await self._api.list(_PODS)
        present = {pod["metadata"]["uid"]: pod for pod in answer["items"]}
        for uid, (worker, _) in list(self._workers.items()):
            if uid not in present:
                worker.gone()
        for pod in present.values():
            self._handle(WatchEventType.MODIFIED, pod)
        return str(answer["metadata"]["resourceVersion"])

    def _handle(self, event_type: WatchEventType, pod: JsonObject) -> None:
        if event_type is WatchEventType.BOOKMARK:
            return
        uid = pod["metadata"]["uid"]
        known = self._workers.get(uid)
        if event_type is WatchEventType.DELETED:
            if known:
                known[0].gone()
        elif known:
            known[0].update(pod)
        elif pod["spec"].get("nodeName") in self._agent.nodes:
            worker = PodWorker(pod, self._services)
            task = asyncio.get_running_loop().create_task(worker.run(), name=f"pod {pod['metadata']['name']}")
            self._workers[uid] = worker, task
            task.add_done_callback(lambda done: self._forget(uid, done))

    def _forget(self, uid: str, task: asyncio.Task[None]) -> None:
        self._workers.pop(uid, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A pod's worker failed: uid=%s", uid, exc_info=error)

    async def _pull(self, pod: JsonObject, container: JsonObject) -> None:
        """Take the time of a pull of the container's image, and add the image to the pod's node.

        Raises
        ------
        PullFailed
            If the image cannot be pulled.
        """
        node_name, image, name = pod["spec"]["nodeName"], container.get("image", ""), container["name"]
        async with self._pull_locks.setdefault((node_name, image), asyncio.Lock()):
            node = self._agent.nodes.get(node_name)
            present = node is not None and has_image(node, image)
            if not must_pull(container, present):
                message = f'Container image "{image}" already present on machine and can be accessed by the pod'
                self._events.normal(pod, "Pulled", message, name)
                return
            self._events.normal(pod, "Pulling", f'Pulling image "{image}"', name)
            began = self._clock.now()
            try:
                seconds = 0.0 if present else self._pull_seconds(node_name, image)
            except PullFailed as failure:
                self._events.warning(pod, "Failed", f'Failed to pull image "{image}": {failure}', name)
                raise
            if seconds:
                await self._clock.sleep(seconds)
            pull_time = f"{(self._clock.now() - began).total_seconds():.3g}s"
            message = (
                f'Successfully pulled image "{image}" in {pull_time} ({pull_time} including waiting). '
                f"Image size: {IMAGE_SIZE_BYTES} bytes."
            )
            self._events.normal(pod, "Pulled", message, name)
            if not present:
                try:
                    await self._agent.add_image(node_name, image)
                except KubernetesError as error:
                    log.warning("An image could not be reported: node=%s image=%s error=%s", node_name, image, error)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
