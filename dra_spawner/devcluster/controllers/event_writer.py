"""Events of the control plane, as client-go's two recorders write them."""

from __future__ import annotations

from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError
from dra_spawner.devcluster.api.resource_types import EVENTS
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.devcluster.clock import micro_timestamp, timestamp

_LONGEST_NAME = 230
_LONGEST_MESSAGE = 1024
_MAX_REMEMBERED = 4096


class EventWriter:
    """Writes events; failures are ignored.

    Parameters
    ----------
    component
        Name of the reporting component.
    """

    def __init__(self, store: Store, component: str) -> None:
        self._store = store
        self._component = component
        self._last_name = 0
        self._written: dict[tuple[str, ...], str] = {}

    def count(self, obj: JsonObject, event_type: str, reason: str, message: str) -> None:
        """Report in the style of core/v1: a repeated event is counted."""
        key = self._key(obj, event_type, reason, message)
        now = timestamp(self._store.now())
        if not self._again(key, obj, lambda event: event.update(count=event.get("count", 1) + 1, lastTimestamp=now)):
            event = self._event(obj, event_type, reason, message)
            event |= {"source": {"component": self._component}, "firstTimestamp": now, "lastTimestamp": now, "count": 1}
            self._create(key, event)

    def report(self, obj: JsonObject, event_type: str, reason: str, message: str, action: str) -> None:
        """Report in the style of events.k8s.io/v1: repeated events about the same version of an object are a series."""
        key = (*self._key(obj, event_type, reason, message), obj["metadata"].get("resourceVersion", ""))
        now = micro_timestamp(self._store.now())

        def extend(event: JsonObject) -> None:
            series = event.get("series") or {"count": 1}
            event["series"] = {"count": series["count"] + 1, "lastObservedTime": now}

        if not self._again(key, obj, extend):
            event = self._event(obj, event_type, reason, message)
            event |= {"eventTime": now, "action": action, "reportingInstance": self._component}
            self._create(key, event)

    def _key(self, obj: JsonObject, *parts: str) -> tuple[str, ...]:
        return obj["metadata"]["uid"], *parts

    def _again(self, key: tuple[str, ...], obj: JsonObject, change: Any) -> bool:
        """Change the earlier event of this key; False if there is none."""
        name = self._written.get(key)
        if name is None:
            return False
        try:
            self._store.modify(EVENTS, obj["metadata"]["namespace"], name, change)
        except ApiError:
            return False
        return True

    def _create(self, key: tuple[str, ...], event: JsonObject) -> None:
        try:
            self._store.create(EVENTS, event)
        except ApiError:
            return  # a terminating namespace refuses events
        if len(self._written) >= _MAX_REMEMBERED:
            del self._written[next(iter(self._written))]
        self._written[key] = event["metadata"]["name"]

    def _event(self, obj: JsonObject, event_type: str, reason: str, message: str) -> JsonObject:
        metadata = obj["metadata"]
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE - 4]} ..."
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:_LONGEST_NAME]}.{self._new_number():x}",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": event_type,
            "reason": reason,
            "message": message,
            "reportingComponent": self._component,
        }

    def _new_number(self) -> int:
        """The time in nanoseconds; never the same number twice."""
        self._last_name = max(self._last_name + 1, int(self._store.now().timestamp() * 1e9))
        return self._last_name
