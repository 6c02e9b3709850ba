"""All objects, their numbered changes, and subscribers to the changes."""

from collections.abc import Callable, Iterator, Sequence

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.json_values import freeze
from dra_spawner.devcluster.api.resource_types import STORED_TYPES, ResourceType
from dra_spawner.devcluster.api.storage.changes import History, WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.object_table import ObjectKey, ObjectTable


class VersionedObjects:
    """The present state of each object; each change gets the next number, its ``resourceVersion``.

    Parameters
    ----------
    history_limit
        Number of changes of each kind that watches from the past can read.
    """

    def __init__(self, history_limit: int) -> None:
        self.revision = 0
        self._tables = {resource_type: ObjectTable() for resource_type in STORED_TYPES}
        self._histories = {resource_type: History(history_limit) for resource_type in STORED_TYPES}
        self._subscribers: list[Callable[[WatchEvent], None]] = []
        self._notifying = False

    def find(self, resource_type: ResourceType, namespace: str, name: str) -> JsonObject | None:
        """An object, or None."""
        return self._tables[resource_type.storage].get(namespace, name)

    def values(
        self, resource_type: ResourceType, namespace: str | None = None, after: ObjectKey | None = None
    ) -> Iterator[JsonObject]:
        """The objects of a kind in order, see `ObjectTable.values`."""
        return self._tables[resource_type.storage].values(namespace, after)

    def since(self, resource_type: ResourceType, revision: int) -> Sequence[WatchEvent]:
        """The changes of a kind after a revision, see `History.since`."""
        return self._histories[resource_type.storage].since(revision)

    def subscribe(self, callback: Callable[[WatchEvent], None]) -> Callable[[], None]:
        """Call `callback` after each change; returns the function that ends the subscription."""
        self._subscribers.append(callback)

        def end() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return end

    def put(self, resource_type: ResourceType, obj: JsonObject) -> JsonObject:
        """Store the next state of an object, and return it as stored."""
        stored = self._next(obj)
        metadata = stored["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        previous = self.find(resource_type, namespace, name)
        self._tables[resource_type.storage].put(namespace, name, stored)
        kind = WatchEventType.ADDED if previous is None else WatchEventType.MODIFIED
        self._notify(WatchEvent(kind, resource_type.storage, stored, previous, self.revision))
        return stored

    def remove(self, resource_type: ResourceType, last: JsonObject) -> JsonObject:
        """Remove an object, and return its last state with the number of the removal."""
        gone = self._next(last)
        metadata = gone["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        previous = self.find(resource_type, namespace, name)
        self._tables[resource_type.storage].remove(namespace, name)
        self._notify(WatchEvent(WatchEventType.DELETED, resource_type.storage, gone, previous, self.revision))
        return gone

    def _next(self, obj: JsonObject) -> JsonObject:
        if self._notifying:
            raise RuntimeError("a subscriber of the store wrote to it; subscribers must write later")
        self.revision += 1
        numbered: JsonObject = freeze({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}})
        return numbered

    def _notify(self, event: WatchEvent) -> None:
        self._histories[event.resource_type].append(event)
        self._notifying = True
        try:
            for subscriber in tuple(self._subscribers):
                subscriber(event)
        finally:
            self._notifying = False
