"""The API of a cluster whose clock is ahead: stamps of the API server and its controllers become virtual time.

Times that others write into objects as text (labels and annotations) stay unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, WatchEventType
from dra_spawner.kube.client.api_connection import ApiConnection
from tests.virtual_time.clock import JumpingClock

_METADATA = ("creationTimestamp", "deletionTimestamp")
_CONDITION = ("lastTransitionTime", "lastProbeTime", "lastHeartbeatTime")
_SECOND = timedelta(seconds=1) - timedelta.resolution


class Stamps:
    """Times of real time in objects, as the clock showed them. All observers of a cluster share one instance.

    Stamps have whole seconds, and the clock may jump several times in one. So an object's stamp counts as the last
    moment at which the object can have been created: before it was first seen.
    """

    def __init__(self, clock: JumpingClock) -> None:
        self.clock = clock
        self._known: dict[tuple[str, str, str], str] = {}

    def translate(self, obj: JsonObject) -> JsonObject:
        """Translate an object, or the objects of a list, in place."""
        for item in obj["items"] or () if isinstance(obj.get("items"), list) else (obj,):
            self._object(item)
        return obj

    def _object(self, obj: JsonObject) -> None:
        metadata = obj.get("metadata") or {}
        if not (uid := metadata.get("uid")):
            return
        self._fields(uid, "", metadata, _METADATA)
        status = obj.get("status")
        if not isinstance(status, dict):
            return
        self._fields(uid, "", status, ("startTime",))
        for condition in status.get("conditions") or ():
            self._fields(uid, str(condition.get("type")), condition, _CONDITION)

    def _fields(self, uid: str, of: str, fields: JsonObject, names: tuple[str, ...]) -> None:
        for name in names:
            if stamp := fields.get(name):
                key = (uid, f"{of}/{name}", stamp)
                if key not in self._known:
                    self._known[key] = self._virtual(stamp)
                fields[name] = self._known[key]

    def _virtual(self, stamp: str) -> str:
        real = datetime.fromisoformat(stamp)
        seen = self.clock.real_now()
        # A future stamp (a deletion, after its grace) is in the time after the last jump.
        moment = self.clock.at(real if real > seen else min(real + _SECOND, seen))
        return moment.replace(microsecond=0).isoformat().replace("+00:00", "Z")


class _Connection(ApiConnection):
    """Translates every answer."""

    def __init__(self, connection: ApiConnection, stamps: Stamps) -> None:
        super().__init__(connection.client, connection.timeout_seconds)
        self._stamps = stamps

    async def read_json(self, *arguments: Any, **options: Any) -> JsonObject:
        return self._stamps.translate(await super().read_json(*arguments, **options))


class VirtualTimeApi(KubernetesApi):
    """A `KubernetesApi` with stamps of virtual time in every answer and every event."""

    _stamps: Stamps

    @classmethod
    async def connect(cls, kubeconfig: Path, stamps: Stamps, **options: Any) -> Self:
        """As `from_kubeconfig`; all connections to a cluster share the stamps."""
        api = await cls.from_kubeconfig(kubeconfig, **options)
        api.stamp_by(stamps)
        return api

    def stamp_by(self, stamps: Stamps) -> None:
        """Translate by these stamps from now on."""
        self._stamps = stamps
        self.connection = _Connection(self.connection, stamps)

    async def watch(self, path: str, **options: Any) -> AsyncGenerator[tuple[WatchEventType, JsonObject], None]:
        async for event_type, obj in super().watch(path, **options):
            yield event_type, self._stamps.translate(obj)
