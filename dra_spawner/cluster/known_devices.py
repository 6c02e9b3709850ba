"""The cluster's devices as the spawn form needs them: read now and then, and never waited for long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from dra_spawner.cluster.api import JsonObject, KubernetesApi, KubernetesError, resource_path
from dra_spawner.dra.objects import DeviceClass, ObjectError, ResourceSlice
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.offers import DeviceCatalog

__all__ = ["KnownDevices"]

_Object = TypeVar("_Object")

_RESOURCE_API = "resource.k8s.io/v1"
#: For how long what was read counts as it is. Sizes of devices hardly change; new nodes may come.
_FRESH_SECONDS = 30.0
#: How long a form waits for a reading; what was known before does until it is there.
_WAIT_SECONDS = 2.0

log = logging.getLogger(__name__)


class KnownDevices:
    """Device classes and slices as last read; one reading at a time, whoever asks."""

    def __init__(self) -> None:
        self.catalog = DeviceCatalog(ClusterFacts())
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def learn(self, api: KubernetesApi) -> DeviceCatalog:
        """What is known, after a short wait for news if it is old; an API server that does not answer is no error."""
        now = asyncio.get_running_loop().time()
        if self._read_at is not None and now - self._read_at < _FRESH_SECONDS:
            return self.catalog
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(api))
        # The first time there is nothing to show instead; later the next form has the news.
        await asyncio.wait({self._reading}, timeout=_WAIT_SECONDS if self._read_at is None else 0.2)
        return self.catalog

    async def _read(self, api: KubernetesApi) -> None:
        try:
            classes, slices = await asyncio.gather(
                *(api.list(resource_path(_RESOURCE_API, plural)) for plural in ("deviceclasses", "resourceslices"))
            )
        except KubernetesError as error:
            log.warning("The spawn form knows no devices, or old ones: %s", error)
            return
        # Not in the event loop: a large cluster has thousands of slices.
        facts = await asyncio.to_thread(_facts, classes["items"], slices["items"])
        if facts != self.catalog.facts:
            self.catalog = DeviceCatalog(facts)
        self._read_at = asyncio.get_running_loop().time()


def _facts(classes: Iterable[JsonObject], slices: Iterable[JsonObject]) -> ClusterFacts:
    return ClusterFacts(
        device_classes={each.name: each for each in _decoded(DeviceClass.from_json, classes)},
        slices=tuple(_decoded(ResourceSlice.from_json, slices)),
    )


def _decoded(decode: Callable[[object], _Object], objects: Iterable[JsonObject]) -> list[_Object]:
    """What makes sense of the objects."""
    found = []
    for obj in objects:
        try:
            found.append(decode(obj))
        except ObjectError as error:
            log.info("The spawn form passes over an object: %s", error)
    return found
