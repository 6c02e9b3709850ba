"""The hub's reader of devices: each caller states a maximum age of the data, and callers share requests."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.common.owned_tasks import all_of
from dra_spawner.dra.model.objects import DeviceClass, ResourceSlice
from dra_spawner.dra.scheduler_rules import DEFAULT_RULES, Release, SchedulerRules
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.discovery import is_absent
from dra_spawner.profiles.facts import ClusterFacts
from dra_spawner.profiles.user_form.offers import DeviceCatalog
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.objects.api_objects import CLAIMS

#: Maximum age that accepts only data read after the call.
NOW: Final = 0.0
#: Maximum age of a spawn form's devices in seconds; their sizes rarely change, but new nodes may join.
_FORM_SECONDS: Final = 30.0
#: Seconds after a failed reading before a form tries again.
_RETRY_SECONDS: Final = 5.0
#: Seconds that a form waits for the first reading.
_FIRST_WAIT_SECONDS: Final = 2.0
#: Seconds that a form waits for new data if it has older data.
_LATER_WAIT_SECONDS: Final = 0.2

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """The result of a reading; it includes all changes before its beginning."""

    begun_at: float = -math.inf
    value: T | None = None
    error: KubernetesError | None = None


class Reading(Generic[T]):
    """Data that are read repeatedly, by one reading at a time, which all waiting callers share.

    Parameters
    ----------
    is_cached
        Whether the last value is cached.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], *, is_cached: bool = True) -> None:
        self._read = read
        self._is_cached = is_cached
        self._last_success: _Result[T] = _Result()
        self._last: _Result[T] = _Result()
        self._task: asyncio.Task[_Result[T]] | None = None

    @property
    def value(self) -> T | None:
        """The last value; None before the first reading."""
        return self._last_success.value

    @property
    def has_failed(self) -> bool:
        """Whether the last reading failed."""
        return self._last.error is not None

    def age(self) -> float:
        """Return the seconds since the last successful reading; infinite before the first."""
        return asyncio.get_running_loop().time() - self._last_success.begun_at

    def seconds_since_try(self) -> float:
        """Return the seconds since the last reading, successful or not."""
        return asyncio.get_running_loop().time() - self._last.begun_at

    def put(self, value: T) -> None:
        """Store a value as read now."""
        self._last = self._last_success = _Result(asyncio.get_running_loop().time(), value)

    def begin(self) -> asyncio.Task[_Result[T]]:
        """Begin a reading, unless one is running. Its task raises no `KubernetesError`."""
        if self._task is None or self._task.done():
            self._task = this_hub().begin(self._run(), "reading of devices")
        return self._task

    async def get(self, max_age_seconds: float) -> T:
        """Return a value of at most this age, from a new reading if necessary.

        Raises
        ------
        KubernetesError
            If the new reading failed.
        """
        result, oldest = self._last_success, asyncio.get_running_loop().time() - max_age_seconds
        while result.begun_at < oldest:
            # A cancelled caller does not cancel the reading for others.
            result = await asyncio.shield(self.begin())
        if result.error is not None:
            raise result.error
        assert result.value is not None
        return result.value

    async def _run(self) -> _Result[T]:
        begun_at = asyncio.get_running_loop().time()
        try:
            result = _Result(begun_at, await self._read())
        except KubernetesError as error:
            self._last = result = _Result(begun_at, error=error)
        else:
            if self._is_cached:
                self._last = self._last_success = result
        return result


@dataclass(frozen=True, slots=True)
class KnownDevices:
    """Decoded device classes and slices, without invalid objects.

    Attributes
    ----------
    classes, slices
        Objects; None if the hub may not list them, or the cluster does not serve them.
    """

    classes: Mapping[str, DeviceClass] | None
    slices: tuple[ResourceSlice, ...] | None


@dataclass(frozen=True, slots=True)
class DeviceObjects:
    """API objects that decide about devices."""

    classes: list[JsonObject]
    slices: list[JsonObject]
    claims: list[JsonObject]
    nodes: list[JsonObject]
    rules: list[JsonObject]
    scheduler_rules: SchedulerRules = field(default=DEFAULT_RULES, kw_only=True)


class DeviceReader:
    """Reads device classes, slices, claims, nodes and DeviceTaintRules.

    Parameters
    ----------
    form_seconds, retry_seconds
        Maximum age of a form's devices, and delay after a failed reading.

    Attributes
    ----------
    devices
        Classes and slices as forms and checks of profiles use them.
    classes, slices, claims, nodes, rules
        Collections of API objects, which may be large and are not cached, except for rules.
    """

    def __init__(
        self, api: KubernetesApi, *, form_seconds: float = _FORM_SECONDS, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        self.api = api
        self._form_seconds, self._retry_seconds = form_seconds, retry_seconds
        self.classes = self._collection(names.RESOURCE_API, "deviceclasses")
        self.slices = self._collection(names.RESOURCE_API, "resourceslices")
        self.claims = self._collection(names.RESOURCE_API, CLAIMS)
        self.nodes = self._collection("v1", "nodes")
        self.rules: Reading[list[JsonObject]] = Reading(self._read_rules)
        self.devices: Reading[KnownDevices] = Reading(self._read_devices)
        self._facts = ClusterFacts()
        self._catalog = DeviceCatalog(self._facts)
        self._catalog_of: KnownDevices | None = None

    def _collection(self, group_version: str, plural: str) -> Reading[list[JsonObject]]:
        async def read() -> list[JsonObject]:
            return list((await self.api.list(resource_path(group_version, plural)))["items"])

        return Reading(read, is_cached=False)

    def follow_release(self, release: Release | None, gates: Mapping[str, bool]) -> None:
        """Let all that is computed follow the rules of this release, with these feature gates."""
        facts = ClusterFacts(kubernetes_version=release, gates=gates)
        if facts != self._facts:
            self._facts, self._catalog_of = facts, None

    @property
    def scheduler_rules(self) -> SchedulerRules:
        """The rules of the cluster's kube-scheduler; the newest known ones until its release is known."""
        return self._facts.scheduler_rules

    async def objects(self) -> DeviceObjects:
        """Return the present objects that decide about devices.

        Raises
        ------
        KubernetesError
            If one of the collections cannot be read.
        """
        readings = (self.classes, self.slices, self.claims, self.nodes, self.rules)
        found = await all_of(asyncio.gather(*(each.get(NOW) for each in readings)))
        return DeviceObjects(*found, scheduler_rules=self.scheduler_rules)

    async def _read_rules(self) -> list[JsonObject]:
        """All DeviceTaintRules; none if the account may not list them: `doctor` says that.

        What was read before may be read: a replica of the control plane that begins refuses accounts.
        """
        try:
            from dra_spawner.kube.taint_rules import list_taint_rules  # a hub's import needs no rules

            return await list_taint_rules(self.api)
        except KubernetesError as error:
            if error.status != 403 or self.rules.value:
                raise
            return []

    async def _read_devices(self) -> KnownDevices:
        known = self.devices.value or KnownDevices(None, None)
        try:
            classes, slices = await all_of(
                asyncio.gather(
                    self._read_kind(self.classes, "deviceclasses", was_read=known.classes is not None),
                    self._read_kind(self.slices, "resourceslices", was_read=known.slices is not None),
                )
            )
        except KubernetesError as error:
            # Logged once, as either of the two requests may fail first.
            if not self.devices.has_failed:
                log.warning("Devices cannot be read, so the spawn form shows no devices or old data: %s", error)
            raise
        # In a thread, as a large cluster has thousands of slices.
        found = await asyncio.to_thread(_decode, classes, slices)
        # Equal data stay the same object, so that cached results remain valid.
        return known if self.devices.value is not None and known == found else found

    async def _read_kind(
        self, kind: Reading[list[JsonObject]], plural: str, *, was_read: bool
    ) -> list[JsonObject] | None:
        """All objects; None if the account may not list them, or the cluster does not serve them.

        What was read before cannot be missing: a replica of the control plane that begins refuses accounts, and one
        that is older does not serve the kind.
        """
        try:
            return await kind.get(NOW)
        except KubernetesError as error:
            if was_read or error.status not in (403, 404):
                raise
            if error.status == 404 and not await is_absent(self.api, names.RESOURCE_API, plural):
                raise
            return None

    @property
    def catalog(self) -> DeviceCatalog:
        """The catalog of the known devices."""
        devices = self.devices.value
        if devices is not None and devices is not self._catalog_of:
            self._catalog_of = devices
            self._catalog = DeviceCatalog(replace(self._facts, device_classes=devices.classes, slices=devices.slices))
        return self._catalog

    async def learn(self) -> DeviceCatalog:
        """Return the catalog, after a short wait for new data if it is old.

        If the data do not arrive in time, the catalog is the old one; the next form has newer data.
        """
        devices = self.devices
        is_due = devices.age() > self._form_seconds and not (
            devices.has_failed and devices.seconds_since_try() < self._retry_seconds
        )
        if is_due:
            wait = _LATER_WAIT_SECONDS if self.catalog.is_known else _FIRST_WAIT_SECONDS
            await asyncio.wait({devices.begin()}, timeout=wait)
        return self.catalog

    async def latest(self) -> DeviceCatalog:
        """Return the catalog after a new reading, however long it takes; the old one if that fails.

        For work that no user waits for.
        """
        await asyncio.wait({self.devices.begin()})
        return self.catalog


def device_reader(api: KubernetesApi) -> DeviceReader:
    """Return the reader that all spawners of this hub share for a cluster."""
    return this_hub().shared((DeviceReader, api.server), lambda: DeviceReader(api))


async def readable(answer: Awaitable[T]) -> T | None:
    """Return the result of a request; None if the account may not read it or the API does not have it."""
    try:
        return await answer
    except KubernetesError as error:
        if error.status in (403, 404):
            return None
        raise


def decoded(decode: Callable[[JsonObject], T], objects: Iterable[JsonObject]) -> tuple[T, ...]:
    """Return the valid objects, decoded."""
    found = []
    for obj in objects:
        with suppress(Exception):
            found.append(decode(obj))
    return tuple(found)


def _decode(classes: list[JsonObject] | None, slices: list[JsonObject] | None) -> KnownDevices:
    return KnownDevices(
        {each.name: each for each in decoded(DeviceClass.from_json, classes)} if classes is not None else None,
        decoded(ResourceSlice.from_json, slices) if slices is not None else None,
    )
