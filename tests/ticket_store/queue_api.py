"""A Kubernetes API without a connection, for the ConfigMap of tickets: each request gives others a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dra_spawner import names
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import CONFIGMAPS
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.client.api_errors import KubernetesUnavailable, RequestTarget, error_from_status

__all__ = ["NAMESPACE", "QueueApi"]

NAMESPACE = "default"


class QueueApi(KubernetesApi):
    """On the embedded cluster's store, whose resourceVersions are those of an API server.

    Attributes
    ----------
    lost
        Number of the next writes that are done, but whose answers are lost.
    is_away
        Whether each request fails.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lost = 0
        self.is_away = False
        self.requests: list[str] = []

    async def get(self, path: str, **_: Any) -> Any:
        return await self._request("get", path, lambda: self.store.get(CONFIGMAPS, NAMESPACE, names.TICKETS_CONFIG_MAP))

    async def replace(self, path: str, body: Any, **_: Any) -> Any:
        return await self._request("update", path, lambda: self.store.update(CONFIGMAPS, body))

    async def create(self, path: str, body: Any, **_: Any) -> Any:
        return await self._request("create", path, lambda: self.store.create(CONFIGMAPS, body, NAMESPACE))

    async def _request(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        self.requests.append(verb)
        target = RequestTarget(verb, path)
        await asyncio.sleep(0)
        if self.is_away:
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message="away")
        try:
            answer = mutable_copy(call())
        except ApiError as error:
            raise error_from_status(target, error.status_code, error.to_status()) from error
        await asyncio.sleep(0)
        if self.lost and verb != "get":
            self.lost -= 1
            raise KubernetesUnavailable(target, status=0, reason="Unavailable", message="lost")
        return answer
