"""Kubernetes Events about what the executor did: on placeholders, users' pods and nodes.

Nothing waits for an event, and nothing depends on one. Equal events on one object within `_WINDOW` are one Event with a
count. Events are written at a limited rate; if too many are due, the latest are left out.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.rights import missing_right
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.leader import NotLeading
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import Action, AddConsumer, DeletePlaceholder, LabelNode
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

log = logging.getLogger(__name__)

NODE_NAMESPACE: Final = "default"
"""The API server's namespace of events about objects without a namespace."""
_REPORTER: Final = f"{names.HUB_PREFIX}{names.PROJECT}"
_WINDOW: Final = timedelta(minutes=10)
_PAUSE: Final = timedelta(minutes=5)
"""Time without events in a namespace after one could not be written there."""
_EVERY_SECONDS: Final = 1.0
_MAX_AT_ONCE: Final = 5
_MAX_DUE: Final = 200
_LONGEST_NOTE: Final = 1000
_LONGEST_NAME: Final = 200

_REASONS: Final = {
    Cause.HANDED_OVER: "PlaceholderHandedOver",
    Cause.PREEMPTED: "PlaceholderPreempted",
    Cause.EXPIRED: "PlaceholderReservationExpired",
    Cause.REBALANCE: "PlaceholderRebalanced",
    Cause.DRAIN: "PlaceholderDrained",
    Cause.EMPTYING: "PlaceholderNodeEmptied",
    Cause.QUOTA: "PlaceholderOverQuota",
    Cause.SURPLUS: "PlaceholderSurplus",
    Cause.OUTDATED: "PlaceholderOutdated",
    Cause.EVICTED: "PlaceholderEvicted",
    Cause.BROKEN: "PlaceholderBroken",
}
_NODE_REASONS: Final = {
    names.IMAGES_READY: ("ReadyForUsers", "NotReadyForUsers"),
    names.ATTRACT: ("AttractsPlaceholders", "AttractsNoPlaceholders"),
    names.DRAINING: ("Draining", "NotDraining"),
}
"""Reasons when a label is set, and when it is removed."""

# Users read the events of their pods while a server starts.
_FREED_FOR_USER: Final = "Capacity that was kept in reserve was freed for this server."
_GIVEN_TO_USER: Final = "A device that was prepared in advance is given to this server."


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An event about one object.

    Attributes
    ----------
    kind, key, uid
        The object: a Pod or a Node.
    related
        Another pod that it is about; None for none.
    """

    kind: str
    key: ObjectKey
    uid: str
    reason: str
    action: str
    note: str
    related: ObjectKey | None = None

    @property
    def namespace(self) -> str:
        return self.key.namespace or NODE_NAMESPACE


def events_of(action: Action, watch: ClusterWatch) -> Iterator[ObjectEvent]:
    """The events of a finished action; none for actions that Kubernetes' own events show."""
    match action:
        case DeletePlaceholder():
            reason = _REASONS[action.cause]
            yield ObjectEvent("Pod", action.key, action.uid, reason, action.kind, action.reason, action.pod)
            pod = watch.snapshot.pods.get(action.pod) if action.pod is not None else None
            if action.cause is Cause.PREEMPTED and pod is not None:
                key = ObjectKey.of(pod)
                yield ObjectEvent("Pod", key, pod.uid, reason, action.kind, _FREED_FOR_USER, action.key)
        case AddConsumer():
            reason = "ClaimHandedOver"
            yield ObjectEvent("Pod", action.pod, action.pod_uid, reason, action.kind, _GIVEN_TO_USER)
        case LabelNode():
            key = ObjectKey("", action.node)
            node = watch.observed(Kind.NODE, key)
            if node is not None and (reasons := _NODE_REASONS.get(action.label)) is not None:
                label = f"{action.label}={action.value}" if action.value is not None else f"{action.label}-"
                reason = "Emptying" if action.value == names.EMPTYING else reasons[action.value is None]
                yield ObjectEvent("Node", key, node.uid, reason, action.kind, f"{label}: {action.reason}")
        case _:
            pass


@dataclass(slots=True)
class _Written:
    """An Event of the API, and what is not written yet."""

    event: ObjectEvent
    name: str
    since: datetime
    count: int = 0
    """Occurrences that the API server has."""
    due: int = 0


class EventRecorder:
    """Writes events, in a task of its own.

    Parameters
    ----------
    instance
        Name of this process in events.
    namespaces
        Namespaces in which the account may write events; others have none.
    may_act
        See `ActionExecutor`.
    """

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        *,
        instance: str,
        namespaces: Collection[str],
        may_act: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._watch = watch
        self._instance = instance[:128]
        self._namespaces = frozenset(namespaces)
        self._may_act = may_act
        self._now = now
        self._known: dict[tuple[str, str, str], _Written] = {}
        self._off_until: dict[str, datetime] = {}
        """By namespace."""
        self._logged: set[str] = set()
        self._woken = asyncio.Event()

    def note(self, action: Action) -> None:
        """Note a finished action."""
        now = self._now()
        for event in events_of(action, self._watch):
            self._woken.set()
            if event.namespace not in self._namespaces or now < self._off_until.get(event.namespace, now):
                continue
            key = (event.uid, event.reason, event.note if event.kind == "Pod" else "")
            found = self._known.get(key)
            if found is not None and now - found.since < _WINDOW:
                found.due += 1
            elif sum(each.due > 0 for each in self._known.values()) < _MAX_DUE:
                name = f"{event.key.name[:_LONGEST_NAME]}.{uuid.uuid4().hex[:16]}"
                self._known[key] = _Written(event, name, now, due=1)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._woken.wait()
            # Equal events of the next moment count for the same write.
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.flush()
            except NotLeading:
                return
            except Exception:  # a defect here must not end the service
                log.exception("Events cannot be written.")

    async def flush(self) -> None:
        """Write some of the events that are due, and forget old ones."""
        now = self._now()
        due = [each for each in self._known.values() if each.due]
        for each in due[:_MAX_AT_ONCE]:
            if not each.due:
                continue  # its namespace was refused a moment ago
            # A later occurrence counts for the next write.
            added, each.due = each.due, 0
            self._may_act()
            try:
                await self._write(each, each.count + added)
            except KubernetesError as error:
                self._note_failure(each.event.namespace, error)
                continue
            each.count += added
        if not any(each.due for each in self._known.values()):
            self._woken.clear()
        self._known = {key: each for key, each in self._known.items() if each.due or now - each.since < _WINDOW}

    async def _write(self, written: _Written, count: int) -> None:
        path = resource_path(names.EVENTS_API, "events", written.event.namespace)
        series = {"count": count, "lastObservedTime": _stamp(self._now())}
        if written.count:
            await self._api.patch(f"{path}/{written.name}", {"series": series})
            return
        body = self._body(written)
        await self._api.create(path, {**body, "series": series} if count > 1 else body)

    def _body(self, written: _Written) -> JsonObject:
        event = written.event
        body: JsonObject = {
            "apiVersion": names.EVENTS_API,
            "kind": "Event",
            "metadata": {"name": written.name, "namespace": event.namespace},
            "eventTime": _stamp(written.since),
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
            "action": event.action,
            "reason": event.reason,
            "type": "Normal",
            "note": event.note[:_LONGEST_NOTE],
            "regarding": {**_reference(event.kind, event.key), "uid": event.uid},
        }
        if event.related is not None:
            body["related"] = _reference("Pod", event.related)
        return body

    def _note_failure(self, namespace: str, error: KubernetesError) -> None:
        """Write no events there for a time; the next ones may be refused, too."""
        right = missing_right(error)
        if namespace not in self._logged:
            self._logged.add(namespace)
            log.info("No events are written for a time: namespace=%s because=%s", namespace, right or error)
        self._off_until[namespace] = self._now() + _PAUSE
        for each in self._known.values():
            if each.event.namespace == namespace:
                each.due = 0


def _reference(kind: str, key: ObjectKey) -> JsonObject:
    found: JsonObject = {"apiVersion": "v1", "kind": kind, "name": key.name}
    return {**found, "namespace": key.namespace} if key.namespace else found


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
