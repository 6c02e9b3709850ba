"""What the hub publishes, followed as it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, NoReturn, Self

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.informers import Informer, InformerSettings, InformerStatus, Resource, wait_informers_ended
from dra_spawner.placeholders.planner.published_shapes import PublishedShapes, read_config_map
from dra_spawner.simulator.claims import ObjectKey

__all__ = ["ShapesSource"]

log = logging.getLogger(__name__)

_KIND: Final = "ConfigMap"
_MOST_TOLD: Final = 100
"""Choices that are left out: how many the log names."""


class ShapesSource:
    """Follows the ConfigMap in which the hub publishes the shapes of all choices.

    An asynchronous context manager: leaving it ends the informer.

    Parameters
    ----------
    namespace
        The hub's.
    name
        Of the ConfigMap.
    on_change
        Called whenever something else is published; must not raise.
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
        self._name = name
        self._present = read_config_map(None, name)
        self._usable = PublishedShapes()
        self._was_usable = False
        self._on_change = on_change
        resource = Resource(_KIND, "v1", "configmaps", namespace, name)
        self._informer = Informer(api, resource, self, settings=settings)
        self._task: asyncio.Task[None] | None = None

    @property
    def synced(self) -> bool:
        """Whether it is known if anything is published."""
        return self._informer.synced

    @property
    def is_usable(self) -> bool:
        """Whether anything that makes sense was ever published while this was followed."""
        return self._was_usable

    @property
    def published(self) -> PublishedShapes:
        """What was published last that made sense: a hub's mishap does not end what is kept for its users."""
        return self._usable

    @property
    def status(self) -> InformerStatus:
        return self._informer.status

    @property
    def problem(self) -> str:
        """Why what is published at present cannot be used; empty if it can."""
        status = self._informer.status
        if status.problem:
            return f"cannot follow ConfigMap {self._name}: {status.problem}"
        if not self._present.problem:
            return ""
        kept = "; what was published before it is used" if self._was_usable else ""
        return f"{self._present.problem}{kept}"

    async def wait_synced(self) -> None:
        """Wait until it is known whether anything is published."""
        await self._informer.wait_synced()

    async def wait_ended(self) -> NoReturn:
        """Wait until the informer ends, which it does not unless by a mistake; raises `InformerEnded`."""
        assert self._task is not None
        await wait_informers_ended((self._task,))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._informer.run(), name=f"informer of {self._name}")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- what the informer tells -------------------------------------------------------------------------------------

    def put(self, obj: JsonObject) -> None:
        """Take in what is published."""
        self._take(read_config_map(obj, self._name))

    def remove(self, key: ObjectKey) -> None:
        """It is published no longer."""
        self._take(read_config_map(None, self._name))

    def _take(self, published: PublishedShapes) -> None:
        if published == self._present:
            return
        self._present = published
        if published.problem:
            log.warning("What the hub publishes cannot be used: %s", self.problem)
        else:
            self._usable, self._was_usable = published, True
            log.info(
                "The hub publishes its choices: shapes=%d left_out=%d", len(published.shapes), len(published.skipped)
            )
            # What somebody else wrote may be tens of thousands.
            for name, why in sorted(published.skipped.items())[:_MOST_TOLD]:
                log.warning("A choice is left out: choice=%.200s because=%.500s", name, why)
        self._on_change()
