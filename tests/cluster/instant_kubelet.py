"""The least of a kubelet, for nodes that are objects only: pods run as soon as they have a node, and end when deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

__all__ = ["InstantKubelet"]

#: Requests under way at once.
_AT_ONCE = 16


class InstantKubelet:
    """Serves all nodes that a watch shows.

    Parameters
    ----------
    now
        A time as ``status.startTime`` has it.
    pod_address
        Of every pod, whose container is then reported, too: a hub waits for both.
    """

    def __init__(self, api: KubernetesApi, watch: ClusterWatch, now: Callable[[], str], pod_address: str = "") -> None:
        self._api = api
        self._watch = watch
        self._now = now
        self.pod_address = pod_address
        self._started: set[str] = set()
        self._ended: set[str] = set()
        self._to_do: asyncio.Queue[tuple[ObjectKey, str, bool]] = asyncio.Queue()
        watch.on_change(self._note)

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._work())

    def _note(self, change: Change) -> None:
        pod = self._watch.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
        if pod is None or not pod.node_name:
            return
        done = self._ended if pod.is_deleted else self._started
        if pod.uid not in done:
            done.add(pod.uid)
            self._to_do.put_nowait((change.key, pod.uid, pod.is_deleted))

    async def _work(self) -> None:
        while True:
            key, uid, is_deleted = await self._to_do.get()
            path = resource_path("v1", "pods", key.namespace, key.name)
            with contextlib.suppress(KubernetesError):  # gone by now
                if is_deleted:
                    await self._api.delete(path, grace_period_seconds=0, uid=uid, missing_ok=True)
                else:
                    status = self._running()
                    await self._api.patch(f"{path}/status", {"metadata": {"uid": uid}, "status": status})

    def _running(self) -> JsonObject:
        now = self._now()
        status: JsonObject = {"phase": "Running", "startTime": now}
        if self.pod_address:
            status |= {
                "podIP": self.pod_address,
                "podIPs": [{"ip": self.pod_address}],
                "containerStatuses": [
                    {
                        "name": "main", "ready": True, "started": True, "restartCount": 0, "image": "", "imageID": "",
                        "state": {"running": {"startedAt": now}},
                    }
                ],
            }  # fmt: skip
        return status
