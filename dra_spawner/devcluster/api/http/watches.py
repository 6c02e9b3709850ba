"""Watches: streams of selected changes, for clients of the HTTP API."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import ApiError, bad_request
from dra_spawner.devcluster.api.http.encoding import to_json
from dra_spawner.devcluster.api.http.requests import ListOptions, Target, parse_revision
from dra_spawner.devcluster.api.resource_types import ResourceType
from dra_spawner.devcluster.api.selectors import ObjectFilter, SelectorError, object_filter
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.devcluster.api.storage.store import Store

Render = Callable[[JsonObject], bytes]
"""Returns an object's JSON text in the requested form."""

MAX_UNSENT_BYTES = 64 * 2**20
"""Maximum of unsent bytes; beyond it the watch ends, and the client must list again."""


class Watch:
    """One client's watch: collects lines for the connection's task.

    Parameters
    ----------
    namespace
        Namespace of the objects; None for all.
    selected
        Whether an object is selected; None selects every object.
    after
        Revision after which changes are reported.
    """

    def __init__(self, namespace: str | None, selected: ObjectFilter | None, render: Render, after: int) -> None:
        self._namespace = namespace
        self._selected = selected
        self._render = render
        self._after = after
        self._lines: list[bytes] = []
        self._unsent_bytes = 0
        self._wake = asyncio.Event()
        self.closed = False

    def close(self) -> None:
        """End the watch after the collected lines were taken."""
        self.closed = True
        self._wake.set()

    def add_line(self, kind: str, obj: bytes) -> None:
        """Collect one line, unless the watch is closed."""
        if self.closed:
            return
        line = b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
        self._lines.append(line)
        self._unsent_bytes += len(line)
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            self.close()
        self._wake.set()

    def add_present(self, objects: Iterable[JsonObject]) -> None:
        """Collect the objects that exist at the start of the watch."""
        for obj in objects:
            if self._selected is None or self._selected(obj):
                self.add_line(WatchEventType.ADDED, self._render(obj))

    def add_change(self, event: WatchEvent) -> None:
        """Collect a change, if the object is selected before or after it.

        An object that stops matching is reported as deleted, in its last matching state.
        """
        if event.revision <= self._after:
            return
        if self._namespace is not None and event.object["metadata"].get("namespace") != self._namespace:
            return
        selected = self._selected
        if selected is None:
            self.add_line(event.type, self._render(event.object))
            return
        before = event.previous is not None and selected(event.previous)
        after = event.type is not WatchEventType.DELETED and selected(event.object)
        if after:
            self.add_line(WatchEventType.MODIFIED if before else WatchEventType.ADDED, self._render(event.object))
        elif before and event.previous is not None:
            metadata = {**event.previous["metadata"], "resourceVersion": str(event.revision)}
            self.add_line(WatchEventType.DELETED, self._render({**event.previous, "metadata": metadata}))

    async def take(self, timeout_seconds: float) -> bytes:
        """Wait for lines and return them; empty after a timeout or when the watch is closed."""
        if not self._lines and not self.closed:
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        return self.collected()

    def collected(self) -> bytes:
        """Return the collected lines, and forget them."""
        lines = b"".join(self._lines)
        self._lines.clear()
        self._unsent_bytes = 0
        return lines


class WatchHub:
    """Passes the store's changes to all watches of a server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: dict[ResourceType, set[Watch]] = defaultdict(set)
        self._unsubscribe = store.subscribe(self._changed)

    def __len__(self) -> int:
        return sum(map(len, self._watches.values()))

    def close(self) -> None:
        self._unsubscribe()
        for watches in self._watches.values():
            for watch in watches:
                watch.close()

    def _changed(self, event: WatchEvent) -> None:
        for watch in self._watches.get(event.resource_type, ()):
            watch.add_change(event)

    def open(self, target: Target, options: ListOptions, render: Render) -> Watch:
        """Start a watch, with the changes since the client's resource version.

        Without a resource version, or with "0", it starts with the present objects.

        Raises
        ------
        ApiError
            ``BadRequest`` for selectors that cannot be parsed.
        """
        resource_type = target.resource_type
        selector = options.field_selector
        if target.name:
            selector = ",".join(filter(None, (selector, f"metadata.name={target.name}")))
        try:
            selected = object_filter(resource_type, options.label_selector, selector)
        except SelectorError as error:
            raise bad_request(str(error)) from error
        after = parse_revision(options.resource_version)
        watch = Watch(target.namespace, selected, render, after)
        if after == 0 or options.initial_events:
            watch.add_present(self._store.objects(resource_type, target.namespace))
            if options.bookmarks:
                watch.add_line("BOOKMARK", self.bookmark(resource_type, initial_events_end=True))
        else:
            try:
                for event in self._store.events_since(resource_type, after):
                    watch.add_change(event)
            except ApiError as error:  # the response has begun, so the error is an event in it
                watch.add_line("ERROR", to_json(error.to_status()))
                watch.close()
        self._watches[resource_type.storage].add(watch)
        return watch

    def discard(self, resource_type: ResourceType, watch: Watch) -> None:
        """Remove the watch of a disconnected client."""
        self._watches[resource_type.storage].discard(watch)

    def bookmark(self, resource_type: ResourceType, *, initial_events_end: bool = False) -> bytes:
        """A bookmark: the resource version up to which the client has seen all changes."""
        metadata: dict[str, Any] = {"resourceVersion": self._store.resource_version, "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {names.INITIAL_EVENTS_END: "true"}
        return to_json({"kind": resource_type.kind, "apiVersion": resource_type.api_version, "metadata": metadata})
