"""The progress page of a start: the pod's events and this project's messages."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime

from dra_spawner.json_types import JsonObject

Event = JsonObject


class StartMessages:
    """Events and messages, each once, in the order of their arrival.

    KubeSpawner's progress reads a list that only grows. If a message were inserted before events that were shown
    already, it would never be shown, and an event twice.

    Parameters
    ----------
    namespace, pod_name
        The pod of the messages.
    """

    def __init__(self, namespace: str, pod_name: str) -> None:
        self._about = {"kind": "Pod", "namespace": namespace, "name": pod_name}
        self._timeline: list[Event] = []
        self._seen: set[str] = set()
        self._own: set[str] = set()

    def with_events(self, events: Iterable[Event]) -> list[Event]:
        """Add the pod's new events; return all events and messages so far."""
        for event in events:
            uid = event["metadata"]["uid"]
            if uid not in self._seen:
                self._seen.add(uid)
                self._timeline.append(event)
        return list(self._timeline)

    def is_own(self, uid: str | None) -> bool:
        """Whether a uid belongs to a message, not to an event."""
        return uid in self._own

    def notify(self, sentence: str) -> None:
        """Add a message, in the form of an Event object."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        metadata = {"uid": uuid.uuid4().hex, "name": self._about["name"], "namespace": self._about["namespace"]}
        event = {
            "metadata": metadata,
            "involvedObject": self._about,
            "type": "Normal",
            "reason": "WaitingForDevices",
            "message": sentence,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
        }
        self._own.add(metadata["uid"])
        self.with_events([event])
