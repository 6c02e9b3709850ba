"""The hub's published shapes, followed by a watch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.informer_task import InformerTask
from dra_spawner.kube.informers import Informer, InformerSettings, InformerStatus
from dra_spawner.kube.resource import Resource
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, read_config_map
from dra_spawner.simulator.model.claims import ObjectKey

log = logging.getLogger(__name__)

_KIND: Final = "ConfigMap"
_MAX_LOGGED: Final = 100
"""Limit of left-out choices in the log."""


class ShapesSource(InformerTask):
    """Follows the ConfigMap in which the hub publishes the shapes of all choices.

    An asynchronous context manager: leaving it ends the informer.

    Parameters
    ----------
    name
        Of the ConfigMap.
    on_change
        Called after each change; must not raise.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        name: str = names.SHAPES_CONFIG_MAP,
        *,
        on_change: Callable[[], None] = lambda: None,
        settings: InformerSettings | None = None,
    ) -> None:
        resource = Resource(_KIND, "v1", "configmaps", namespace, name)
        super().__init__(Informer(api, resource, self, settings=settings), name)
        self._present = read_config_map(None, name)
        self._usable = PublishedShapes()
        self._was_usable = False
        self._on_change = on_change

    @property
    def synced(self) -> bool:
        """Whether the ConfigMap was read."""
        return self._informer.synced

    @property
    def is_usable(self) -> bool:
        """Whether valid shapes were ever read."""
        return self._was_usable

    @property
    def published(self) -> PublishedShapes:
        """The last valid shapes, so that a defect of the hub does not end placeholders."""
        return self._usable

    @property
    def status(self) -> InformerStatus:
        return self._informer.status

    @property
    def problem(self) -> str:
        """Why the published shapes cannot be used; empty if they can."""
        status = self._informer.status
        if status.problem:
            return f"cannot follow ConfigMap {self._name}: {status.problem}"
        if not self._present.problem:
            return ""
        kept = "; the shapes before it stay in use" if self._was_usable else ""
        return f"{self._present.problem}{kept}"

    def put(self, obj: JsonObject) -> None:
        """Take a new version of the ConfigMap."""
        self._take(read_config_map(obj, self._name))

    def remove(self, key: ObjectKey) -> None:
        """Note that the ConfigMap is gone."""
        self._take(read_config_map(None, self._name))

    def _take(self, published: PublishedShapes) -> None:
        if published == self._present:
            return
        self._present = published
        if published.problem:
            log.warning("The published shapes cannot be used: %s", self.problem)
        else:
            self._usable, self._was_usable = published, True
            log.info(
                "The hub publishes its choices: shapes=%d skipped=%d",
                len(published.shapes),
                len(published.skipped),
            )
            # Another writer may list tens of thousands.
            for name, why in sorted(published.skipped.items())[:_MAX_LOGGED]:
                log.warning("A choice is left out: choice=%.200s because=%.500s", name, why)
        self._on_change()
