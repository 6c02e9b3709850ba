"""How long Events are stored: kube-apiserver's hour (``--event-ttl``), and never too many."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from dra_spawner.devcluster.api.resource_types import EVENTS
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.object_table import ObjectKey

LIFETIME: Final = timedelta(hours=1)
"""Age at which an Event is removed, from its last change."""
MAX_EVENTS: Final = 5_000
"""Number of Events above which the oldest are removed; a real API server has no such limit."""


class EventLifetime:
    """Knows which Events are due for removal."""

    def __init__(self) -> None:
        self._last_changes: dict[ObjectKey, datetime] = {}
        """In order of the changes, oldest first."""

    def note(self, change: WatchEvent, now: datetime) -> None:
        """Note a change of an object of any kind."""
        if change.resource_type is not EVENTS:
            return
        metadata = change.object["metadata"]
        key = (metadata["namespace"], metadata["name"])
        self._last_changes.pop(key, None)
        if change.type is not WatchEventType.DELETED:
            self._last_changes[key] = now

    def due(self, now: datetime) -> Iterator[ObjectKey]:
        """The Events to remove, one after the other; each must be removed before the next is asked for."""
        while self._last_changes:
            key, changed = next(iter(self._last_changes.items()))
            if now - changed < LIFETIME and len(self._last_changes) <= MAX_EVENTS:
                return
            yield key
