"""Changes as server-sent events, the same bytes for all streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from dra_spawner.kube.cluster_watch import Change
from dra_spawner.simulator.model.cluster_objects import Kind

_MAX_STREAMS: Final = 200
#: Limit of past events, for clients that come back.
_KEPT: Final = 1_000
#: Time in which changes are gathered to one event.
_GATHER_SECONDS: Final = 0.5
#: Interval of the heartbeat, which says how old the data are, and keeps a stream open at proxies.
_HEARTBEAT_SECONDS: Final = 5.0
_OF_NODES: Final = ("nodes", "profiles")
_OF_PODS: Final = ("nodes", "pending-servers", "placeholders", "profiles")
_RESOURCES: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.NODE: _OF_NODES,
    Kind.RESOURCE_SLICE: _OF_NODES,
    Kind.DEVICE_CLASS: _OF_NODES,
    Kind.DEVICE_TAINT_RULE: _OF_NODES,
    Kind.POD: _OF_PODS,
    Kind.RESOURCE_CLAIM: _OF_PODS,
}


class TooManyStreams(Exception):
    """Raised where no further stream is answered."""


class ChangeFeed:
    """Gathers changes, numbers them, and gives them to streams.

    An event ``changed`` names the lists of the API that have changed; ``decision`` has a decision; ``reset`` says that
    events are missing, so that everything should be read again. Each stream has the heartbeat ``age`` beside them: the
    age of the data about the cluster. A stream that goes on says nothing about the data otherwise.
    """

    def __init__(self, heartbeat_seconds: float = _HEARTBEAT_SECONDS) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self.data_age: Callable[[], float] = lambda: math.inf
        """Seconds since the data about the cluster were complete."""
        self._epoch = secrets.token_hex(4)
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=_KEPT)
        self._number = 0
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._next = asyncio.Event()
        self._streams = 0

    @property
    def last_id(self) -> str:
        """Id of the latest event; a stream after it has all later ones."""
        return f"{self._epoch}-{self._number}"

    @property
    def streams(self) -> int:
        """Number of open streams."""
        return self._streams

    def note_change(self, change: Change) -> None:
        """Note a change of the cluster."""
        self.note(_RESOURCES.get(change.kind, ()))

    def note(self, resources: Iterable[str]) -> None:
        """Note that lists of the API have changed; the event comes after a moment, with other changes."""
        self._changed.update(resources)
        if self._changed and self._timer is None:
            with contextlib.suppress(RuntimeError):  # without a loop there are no streams
                self._timer = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._publish_changed)

    def publish(self, event: str, data: Any) -> None:
        """Publish an event at once."""
        self._number += 1
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        message = f"id: {self.last_id}\nevent: {event}\ndata: {text}\n\n".encode()
        self._kept.append((self._number, message))
        self._next.set()
        self._next = asyncio.Event()

    @contextlib.contextmanager
    def stream(self, last_id: str, seconds: float) -> Iterator[AsyncIterator[bytes]]:
        """The events after the last one that a client has, for some seconds.

        Raises
        ------
        TooManyStreams
        """
        if self._streams >= _MAX_STREAMS:
            raise TooManyStreams
        self._streams += 1
        try:
            yield self._events(last_id, seconds)
        finally:
            self._streams -= 1

    async def _events(self, last_id: str, seconds: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        seen = self._begin(last_id)
        begun = f"retry: 1000\nid: {self._epoch}-{self._number if seen is None else seen}\n"
        yield (begun + ("event: reset\ndata: {}\n\n" if seen is None and last_id else ": begun\n\n")).encode()
        yield self._heartbeat()
        beat = loop.time() + self._heartbeat_seconds
        seen = self._number if seen is None else seen
        while True:
            following = self._next
            for number, message in [each for each in self._kept if each[0] > seen]:
                seen = number
                yield message
            now = loop.time()
            if now >= end:
                return
            if now >= beat:
                yield self._heartbeat()
                beat = now + self._heartbeat_seconds
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(end, beat)):
                    await following.wait()

    def _heartbeat(self) -> bytes:
        age = self.data_age()
        seconds = f"{age:.1f}" if math.isfinite(age) else "null"
        return f'event: age\ndata: {{"seconds":{seconds}}}\n\n'.encode()

    def _begin(self, last_id: str) -> int | None:
        """The number of the last event that a client has; None if it is not known, or later events are dropped."""
        epoch, _, number = last_id.partition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        last = int(number)
        oldest = self._kept[0][0] if self._kept else self._number + 1
        return last if oldest - 1 <= last <= self._number else None

    def _publish_changed(self) -> None:
        changed, self._changed, self._timer = sorted(self._changed), set(), None
        self.publish("changed", {"resources": changed})
