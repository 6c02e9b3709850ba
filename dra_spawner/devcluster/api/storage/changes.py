"""Changes of objects, and the bounded history from which watches start."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import expired
from dra_spawner.devcluster.api.resource_types import ResourceType


class WatchEventType(StrEnum):
    """Kinds of changes."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of one object."""

    type: WatchEventType
    resource_type: ResourceType
    object: JsonObject
    """The state after the change; for a deletion, the last state with the deletion's resource version."""
    previous: JsonObject | None
    """The state before the change; None if the object is new."""
    revision: int
    """The change's number: ``int`` of the object's resource version."""


class History:
    """The latest changes of one kind, oldest first.

    Parameters
    ----------
    limit
        Maximum number of changes in the history.
    """

    def __init__(self, limit: int) -> None:
        self._events: deque[WatchEvent] = deque(maxlen=limit)
        self._forgotten = 0  # revision of the newest dropped change

    def append(self, event: WatchEvent) -> None:
        """Add a change, and drop the oldest one above the limit."""
        if len(self._events) == self._events.maxlen:
            self._forgotten = self._events[0].revision
        self._events.append(event)

    def since(self, revision: int) -> Sequence[WatchEvent]:
        """The changes after a revision, oldest first.

        Raises
        ------
        ApiError
            ``Expired`` if some of them were dropped.
        """
        if revision < self._forgotten:
            raise expired(f"too old resource version: {revision} ({self._forgotten})")
        recent: list[WatchEvent] = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            recent.append(event)
        recent.reverse()
        return recent
