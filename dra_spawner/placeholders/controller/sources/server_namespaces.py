"""Namespaces of users' servers where each user has one: those with the hub's label, which the chart's policies guard.

A tenant may mark pods as servers in any other namespace; these make no demand here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.informer_task import InformerTask, wait_first_list
from dra_spawner.kube.informers import Informer
from dra_spawner.kube.resource import Resource
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.cluster.cluster_index import Namespaces
from dra_spawner.simulator.model.claims import ObjectKey

log = logging.getLogger(__name__)


class ServerNamespaces:
    """Knows the namespaces of the users' servers; follows those with the hub's label if each user has one.

    Parameters
    ----------
    on_change
        Called after each change; must not raise.
    """

    def __init__(
        self, api: KubernetesApi, settings: ControllerSettings, *, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._hub_namespace = settings.hub_namespace
        self._is_followed = settings.user_namespaces
        self._configured = settings.namespaces
        self._on_change = on_change
        self._informer = Informer(api, Resource("Namespace", "v1", "namespaces"), self)
        self._labelled: frozenset[str] = frozenset()
        self._task = InformerTask(self._informer, "namespaces")

    @property
    def present(self) -> Namespaces:
        """Namespaces that are read. Servers count in all while no namespace is known to have the label.

        That is so before an upgraded hub has made or an administrator has labelled the first one, and without the right
        to list namespaces.
        """
        is_known = self._is_followed and bool(self._labelled)
        return replace(self._configured, servers=self._labelled) if is_known else self._configured

    @property
    def problem(self) -> str:
        """Why the namespaces of users are not known; empty if they are, or if they are not followed."""
        problem = self._informer.status.problem if self._is_followed else ""
        if not problem:
            return ""
        counted = "those of before are used" if self._labelled else "servers in all namespaces count"
        return f"the namespaces of users cannot be followed, and {counted}: {problem}"

    def put(self, obj: JsonObject) -> None:
        """Take a new version of a namespace."""
        metadata = obj["metadata"]
        is_own = (metadata.get("labels") or {}).get(names.HUB_NAMESPACE) == self._hub_namespace
        name = frozenset((metadata["name"],))
        self._take(self._labelled | name if is_own else self._labelled - name)

    def remove(self, key: ObjectKey) -> None:
        """Note that a namespace is gone."""
        self._take(self._labelled - {key.name})

    def _take(self, labelled: frozenset[str]) -> None:
        if labelled != self._labelled:
            self._labelled = labelled
            self._on_change()

    async def wait_ended(self) -> None:
        """Wait until the informer ends by a defect, and raise `InformerEnded`; for ever if nothing is followed."""
        if not self._is_followed:
            await asyncio.Event().wait()
        await self._task.wait_ended()

    async def __aenter__(self) -> Self:
        """Wait a short time for the namespaces, so that the first round counts no stranger."""
        if self._is_followed:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._task)
                await wait_first_list(
                    self._informer, "Servers in all namespaces count until those of users are known", log
                )
                stack.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._task.__aexit__(exc_type, exc, traceback)
