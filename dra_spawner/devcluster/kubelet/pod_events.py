"""Events about pods, as a kubelet reports them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.clock import Clock, timestamp
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path

log = logging.getLogger(__name__)

_FLUSH_SECONDS = 2.0


class EventRecorder:
    """Writes events in the background; repeated events are counted.

    Parameters
    ----------
    enabled
        Whether to write events; False for benchmarks without the load of events.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, *, enabled: bool = True) -> None:
        self._api = api
        self._clock = clock
        self._enabled = enabled
        self._queue: asyncio.Queue[tuple[tuple[str, ...], JsonObject]] = asyncio.Queue()
        self._written: dict[tuple[str, ...], JsonObject] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._write_all(), name="pod events")

    async def stop(self) -> None:
        """Write queued events, for a limited time, and end."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self._queue.join()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    def normal(self, pod: JsonObject, reason: str, message: str, container: str = "") -> None:
        """Queue an event of type Normal."""
        self._record(pod, "Normal", reason, message, container)

    def warning(self, pod: JsonObject, reason: str, message: str, container: str = "") -> None:
        """Queue an event of type Warning."""
        self._record(pod, "Warning", reason, message, container)

    def forget(self, pod: JsonObject) -> None:
        """Forget the counts of a pod that is gone."""
        uid = pod["metadata"]["uid"]
        for key in [key for key in self._written if key[0] == uid]:
            del self._written[key]

    def _record(self, pod: JsonObject, event_type: str, reason: str, message: str, container: str) -> None:
        if not self._enabled:
            return
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        involved: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if container:
            involved["fieldPath"] = f"spec.containers{{{container}}}"
        now = timestamp(self._clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:230]}.{secrets.token_hex(8)}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": involved,
            "type": event_type,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": node},
            "reportingComponent": "kubelet",
            "reportingInstance": node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._queue.put_nowait(((metadata["uid"], event_type, reason, message, container), event))

    async def _write_all(self) -> None:
        while True:
            key, event = await self._queue.get()
            try:
                await self._write(key, event)
            except KubernetesError as error:
                # Events are only informative; a terminating namespace refuses them.
                log.debug("Event not written: %s", error)
            finally:
                self._queue.task_done()

    async def _write(self, key: tuple[str, ...], event: JsonObject) -> None:
        namespace = event["metadata"]["namespace"]
        if (before := self._written.get(key)) is not None:
            path = resource_path("v1", "events", namespace, before["metadata"]["name"])
            body = {"count": before["count"] + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                self._written[key] = await self._api.patch(path, body)
            except KubernetesError as error:
                if not error.not_found:
                    raise
            else:
                return
        self._written[key] = await self._api.create(resource_path("v1", "events", namespace), event)
