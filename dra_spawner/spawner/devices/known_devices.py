"""The cluster's devices as the spawn form needs them: read now and then, and never waited for long."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable

from dra_spawner import names
from dra_spawner.dra.objects import DeviceClass, ResourceSlice
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.offers import DeviceCatalog
from dra_spawner.spawner.devices.facts import decoded

__all__ = ["KnownDevices"]

#: For how long what was read counts as it is. Sizes of devices hardly change; new nodes may come.
_FRESH_SECONDS = 30.0
#: After a reading that failed, the next one is not tried earlier.
_RETRY_SECONDS = 5.0
#: How long a form waits for the first reading.
_FIRST_WAIT_SECONDS = 2.0
#: How long it waits later, when there is something older to show.
_LATER_WAIT_SECONDS = 0.2

log = logging.getLogger(__name__)


class KnownDevices:
    """Device classes and slices as last read; one reading at a time, whoever asks.

    Parameters
    ----------
    fresh_seconds, retry_seconds
        For how long a reading counts, and when the next is tried after one that failed.

    Attributes
    ----------
    catalog
        What is known; nothing at first.
    """

    def __init__(self, fresh_seconds: float = _FRESH_SECONDS, retry_seconds: float = _RETRY_SECONDS) -> None:
        self.catalog = DeviceCatalog(ClusterFacts())
        self._fresh_seconds, self._retry_seconds = fresh_seconds, retry_seconds
        self._next_reading = -math.inf
        self._reading: asyncio.Task[None] | None = None
        self._failed = False

    async def learn(self, api: KubernetesApi) -> DeviceCatalog:
        """What is known, after a short wait for news if it is old; an API server that does not answer is no error."""
        if self._reading is None or self._reading.done():
            if asyncio.get_running_loop().time() < self._next_reading:
                return self.catalog
            self._reading = asyncio.create_task(self._read(api))
        # If the news come later, the next form has them.
        wait = _LATER_WAIT_SECONDS if self.catalog.is_known else _FIRST_WAIT_SECONDS
        await asyncio.wait({self._reading}, timeout=wait)
        return self.catalog

    async def _read(self, api: KubernetesApi) -> None:
        loop = asyncio.get_running_loop()
        try:
            classes, slices = await asyncio.gather(
                *(api.list(resource_path(names.RESOURCE_API, plural)) for plural in ("deviceclasses", "resourceslices"))
            )
        except KubernetesError as error:
            # Once: which of the two requests fails first, and how, differs from time to time.
            if not self._failed:
                log.warning("The spawn form knows no devices, or old ones: %s", error)
            self._failed = True
            self._next_reading = loop.time() + self._retry_seconds
            return
        self._failed = False
        # Not in the event loop: a large cluster has thousands of slices.
        facts = await asyncio.to_thread(_facts, classes["items"], slices["items"])
        if facts != self.catalog.facts:
            self.catalog = DeviceCatalog(facts)
        self._next_reading = loop.time() + self._fresh_seconds


def _facts(classes: Iterable[JsonObject], slices: Iterable[JsonObject]) -> ClusterFacts:
    return ClusterFacts(
        device_classes={each.name: each for each in decoded(DeviceClass.from_json, classes)},
        slices=decoded(ResourceSlice.from_json, slices),
    )
