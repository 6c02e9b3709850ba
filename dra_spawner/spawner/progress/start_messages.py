"""The progress page of a start: one sentence that users see, and a log of the pod's events and our messages."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final

from dra_spawner.common.json_types import JsonObject

Event = JsonObject

_FIRST_SENTENCE: Final = "Your server is being prepared."
_AT_ITS_PLACE: Final = "A machine was found. Your server is being prepared there."
#: Reason of the scheduler's event for a pod that fits nowhere; its text is for administrators.
_UNSCHEDULABLE: Final = "FailedScheduling"
#: What users read instead of an event, by the event's reason. The last sentence stays during other events.
EVENT_SENTENCES: Final[Mapping[str, str]] = {
    _UNSCHEDULABLE: "Your server waits until a machine with all that it needs is free.",
    "TriggeredScaleUp": "A new machine is being started for your server.",  # cluster-autoscaler
    "Nominated": "A new machine is being started for your server.",  # Karpenter
    "Scheduled": _AT_ITS_PLACE,
    "FailedMount": "The files of your server are not ready yet. This is tried again.",
    "FailedAttachVolume": "The files of your server are not ready yet. This is tried again.",
    "Pulling": "The software of your server is being downloaded. This may take some minutes.",
    "Pulled": "The software of your server is there.",
    "Failed": "A step of the start failed. It is tried again.",
    "Started": "Your server runs and is getting ready.",
}


class StartMessages:
    """Events and messages, each once, in the order of their arrival; and the sentence of the present moment.

    KubeSpawner's progress reads a list that only grows. If a message were inserted before events that were shown
    already, it would never be shown, and an event twice.

    Parameters
    ----------
    namespace, pod_name
        The pod of the messages.

    Attributes
    ----------
    sentence
        What happens now, for the user.
    place
        Devices and node of the server, such as ``15 GiB of gpu-3 on node-2``; empty until they are known.
    instead
        Which choice the server has instead of its user's, as a sentence; empty if it has the own one.
    """

    def __init__(self, namespace: str, pod_name: str) -> None:
        self._about = {"kind": "Pod", "namespace": namespace, "name": pod_name}
        self._timeline: list[Event] = []
        self._seen: set[str] = set()
        self._own: set[str] = set()
        self._new_names: dict[str, str] = {}
        self._knows_why = False
        self._has_skipped = False
        self.sentence = _FIRST_SENTENCE
        self.place = ""
        self.instead = ""

    def skip(self, events: Iterable[Event]) -> None:
        """Leave out events of earlier starts. Only the first call counts."""
        if not self._has_skipped:
            self._has_skipped = True
            self._seen |= {event["metadata"]["uid"] for event in events}

    def with_events(self, events: Iterable[Event]) -> list[Event]:
        """Add the pod's new events; return all events and messages so far."""
        for event in events:
            uid = event["metadata"]["uid"]
            if uid not in self._seen:
                self._seen.add(uid)
                self._timeline.append(self._renamed(event))
                self._hear(event)
        return list(self._timeline)

    def is_own(self, uid: str | None) -> bool:
        """Whether a uid belongs to a message, not to an event."""
        return uid in self._own

    def rename(self, names: Iterable[str], name: str) -> None:
        """Call objects by another name in all later events: a warm claim has the name of a placeholder."""
        self._new_names |= dict.fromkeys(names, name)

    def notify(self, sentence: str) -> None:
        """Add a message, in the form of an Event object; it is the sentence until something else happens."""
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
        self.sentence, self._knows_why = sentence, True

    def forget_reason(self) -> None:
        """Forget why the server waits: the reason is over, and no other one is known."""
        if self._knows_why:
            self.sentence, self._knows_why = EVENT_SENTENCES[_UNSCHEDULABLE], False

    def took_instead(self, sentence: str, lasting: str) -> None:
        """Tell that another choice was taken, and until the end of the start which one it is."""
        self.notify(sentence)
        self.instead, self.sentence, self._knows_why = lasting, _FIRST_SENTENCE, False

    def found_place(self, place: str) -> None:
        """Tell devices and node, once they are the server's."""
        if place and place != self.place:
            self.notify(f"Your server gets {place}.")
            self.place = place
            self.sentence, self._knows_why = _AT_ITS_PLACE, False

    def lost_place(self) -> None:
        """Forget devices and node, as the server gets others."""
        self.place = ""

    def line(self, *more: str) -> str:
        """What users see: another choice than theirs, devices and node, what happens now, and more about that."""
        place = f"Yours: {self.place}." if self.place else ""
        return " ".join(each for each in (self.instead, place, self.sentence, *more) if each)

    def _hear(self, event: Event) -> None:
        reason = str(event.get("reason") or "")
        sentence = EVENT_SENTENCES.get(reason)
        # Our own reason is better than that the scheduler found no place; all else is news.
        if sentence and not (reason == _UNSCHEDULABLE and self._knows_why):
            self.sentence, self._knows_why = sentence, False

    def _renamed(self, event: Event) -> Event:
        message = str(event.get("message") or "")
        for old, new in self._new_names.items():
            message = message.replace(old, new)
        return event if message == event.get("message") else {**event, "message": message}


def event_text(event: Event) -> str:
    """An event in the folded log, as KubeSpawner words it."""
    return f"{event.get('lastTimestamp') or event.get('eventTime')} [{event.get('type')}] {event.get('message')}"


def page_html(line: str, text: str = "") -> str:
    """HTML of one entry of the progress page, which shows the line above the log and the text in it.

    ``spawn_pending.html`` of this package hides the other part in each place.
    """
    entry = f'<span class="dra-event">{escape(text)}</span>' if text else ""
    return f'<span class="dra-line">{escape(line)}</span>{entry}'
