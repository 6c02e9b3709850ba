"""What users see of a start: the progress page, the page of a failure, and the home page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import chain
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from jupyterhub.utils import url_escape_path, url_path_join
from kubespawner.spawner import PodReflector

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.kube.pod_ends import (
    REMOVED,
    end_of_events,
    end_of_missing_pod,
    end_of_pod,
    trouble_of_pod,
    unannounced_end,
)
from dra_spawner.placeholders.planner.targets.shapes import device_classes
from dra_spawner.spawner.devices.reader import Reading
from dra_spawner.spawner.hub_addresses import serve_devices
from dra_spawner.spawner.hub_parts.hub_wide import hub_wide, in_background
from dra_spawner.spawner.hub_parts.running_hub import running_hub
from dra_spawner.spawner.progress.ended_pods import EndedPodsReflector
from dra_spawner.spawner.progress.idle_servers import has_devices
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.start_messages import StartMessages
from dra_spawner.spawner.progress.start_progress import (
    elapsed,
    longer_waiting,
    progress_items,
    queue_sentence,
    waiting_since,
)
from dra_spawner.spawner.spawn_form import SpawnForm
from dra_spawner.spawner.spawn_refusal import SpawnRefused
from dra_spawner.spawner.steps import Attempt
from dra_spawner.spawner.steps.pod_watch import PodWatch
from dra_spawner.spawner.user_pages.failure import failure_html
from dra_spawner.spawner.user_pages.hub_templates import extend_templates

if TYPE_CHECKING:
    from dra_spawner.spawner.my_devices.own_devices import OwnDevices
    from dra_spawner.spawner.smaller_choice import SmallerChoice

__all__ = ["StartPage"]

#: Seconds between counts of the servers that wait.
_COUNT_SECONDS = 2.0
#: Seconds after the clean-up that the search for a smaller choice may take in any case.
_SEARCH_SECONDS = 1.0
#: Seconds before JupyterHub's own limit at which the search ends, so that JupyterHub still gets the answer.
_TELLING_SECONDS = 0.5
#: Maximum age of the devices that a server is told; a server may ask as often as it likes.
_OWN_DEVICES_SECONDS = 2.0
#: Status of refusals for which another try can help.
_TRY_AGAIN_LATER = 503


@dataclass
class _Waiting:
    """Servers of this hub that wait for devices.

    Attributes
    ----------
    starting
        Spawners that may be starting.
    since
        See `waiting_since`.
    """

    starting: WeakSet[StartPage] = field(default_factory=WeakSet)
    since: Mapping[frozenset[str], Sequence[str]] = field(default_factory=dict)
    count_again_at: float = 0.0


class StartPage(SpawnForm):
    """KubeSpawner with pages that explain a start.

    Attributes
    ----------
    attempt
        The running or last attempt.
    messages
        Messages of the progress page.
    record
        What the home page tells of the server.
    """

    _event_before: str | None = None
    _start_began = 0.0
    #: Number of calls of `stop`: in a start KubeSpawner stops an older pod, and in a poll one that has ended.
    _stops = 0
    record = ServerRecord()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.messages = StartMessages(self.namespace, self.pod_name)
        self.attempt = Attempt(self, self.messages)
        # JupyterHub makes a user's spawner before it renders one of the user's pages.
        extend_templates(getattr(running_hub(), "tornado_settings", {}), self.log)
        self._own_devices = Reading(self._read_own_devices)
        serve_devices()

    # The progress page

    @property
    def events(self) -> list[JsonObject]:
        """The pod's events and this project's messages."""
        return self.messages.with_events(super().events)

    @property
    def _last_event(self) -> str | None:
        """Uid of the last event before this start; KubeSpawner shows those after it."""
        return self._event_before

    @_last_event.setter
    def _last_event(self, uid: str | None) -> None:
        # In a second attempt the last one may be a message, which is not in the list of events.
        if not self.messages.is_own(uid):
            self._event_before = uid

    async def _start_watching_events(self, replace: bool = False) -> Any:
        """Watch events. A start and its progress page call it first: the events so far are of earlier starts."""
        reflector = await super()._start_watching_events(replace)
        self.messages.skip(super().events)
        return reflector

    async def progress(self) -> AsyncIterator[JsonObject]:
        """Yield the progress of the start: a sentence of the moment, and Kubernetes' events for the log."""
        if self.events_enabled:
            await self._start_watching_events()
        async for item in progress_items(lambda: self.events, self._line, self._start_has_ended):
            yield item

    def _start_has_ended(self) -> bool:
        return self._start_future is not None and self._start_future.done()

    def _line(self) -> str:
        if not self._start_began:
            return self.messages.line()
        seconds = asyncio.get_running_loop().time() - self._start_began
        return self.messages.line(self._queue_sentence(), elapsed(seconds, self.start_timeout))

    def _queue_sentence(self) -> str:
        watch = self.attempt.step(PodWatch)
        if watch is None or not watch.waiting_for or (watch.seen.get("spec") or {}).get("nodeName"):
            return ""
        since = (watch.seen.get("metadata") or {}).get("creationTimestamp")
        if not since:
            return ""
        return queue_sentence(longer_waiting(self._waiting_servers(), self._device_classes(), since))

    def _waiting_servers(self) -> Mapping[frozenset[str], Sequence[str]]:
        """When the pods that wait for devices were created; counted once for all open pages."""
        now = asyncio.get_running_loop().time()
        waiting = hub_wide(_Waiting, _Waiting)
        if now >= waiting.count_again_at:
            waiting.starting = WeakSet(each for each in waiting.starting if not each._start_has_ended())
            waiting.since = waiting_since(
                (each._device_classes(), watch.seen)
                for each in waiting.starting
                if (watch := each.attempt.step(PodWatch)) is not None and watch.seen
            )
            waiting.count_again_at = now + _COUNT_SECONDS
        return waiting.since

    # What the server itself may ask

    async def own_devices(self) -> OwnDevices | None:
        """Return the devices of the running server; None if the hub does not see its pod.

        Raises
        ------
        KubernetesError
            If they cannot be read.
        """
        return await self._own_devices.get(_OWN_DEVICES_SECONDS) if self._own_pod() else None

    async def _read_own_devices(self) -> OwnDevices:
        # Imported here, as few servers ask.
        from dra_spawner.spawner.my_devices.my_devices_reader import read_own_devices
        from dra_spawner.spawner.my_devices.own_devices import OwnDevices

        pod = self._own_pod()
        return await read_own_devices(self.kubernetes, pod) if pod else OwnDevices()

    def _own_pod(self) -> JsonObject | None:
        pods = self.pod_reflector.pods if self.pod_reflector is not None else {}
        return pods.get(f"{self.namespace}/{self.pod_name}")

    def _device_classes(self) -> frozenset[str]:
        """Device classes that the start asks for."""
        return frozenset(chain.from_iterable(device_classes(spec) for spec in self.attempt.plan.specs.values()))

    # The home page

    def record_start(self) -> None:
        """Forget the last start."""
        hub_wide(_Waiting, _Waiting).starting.add(self)
        self.record, self._start_began = ServerRecord(), asyncio.get_running_loop().time()
        getattr(self.pod_reflector, "ended", {}).pop(f"{self.namespace}/{self.pod_name}", None)

    def record_place(self) -> None:
        """Remember the devices of a start that has succeeded, as soon as they are known."""
        own = self.devices_idle_timeout != self.configured["devices_idle_timeout"]
        self.record = ServerRecord(self.messages.place, idle_timeout=self.devices_idle_timeout if own else None)
        watch = self.attempt.step(PodWatch)
        if self.attempt.named_objects and not self.record.place:
            in_background(self._record_place(self.attempt, watch.tell_place()), "record of devices")

    async def _record_place(self, attempt: Attempt, told: asyncio.Task[None]) -> None:
        await told
        if self.attempt is attempt and self.server is not None and attempt.messages.place:
            self.record = replace(self.record, place=attempt.messages.place)
            # JupyterHub took the state at the end of the start; its next change of anything stores this one, too.
            self.orm_spawner.state = self.get_state()

    async def poll(self) -> int | None:
        """Return None while the server runs, else its exit code; remember why Kubernetes ended a server that ran."""
        stops = self._stops
        status: int | None = await super().poll()
        is_stopping = self._spawn_pending or self._stop_pending
        if status is not None and self.server is not None and not is_stopping and not self.record.failure:
            try:
                await self._record_end(is_stopped=stops != self._stops)
            except Exception:  # the hub must learn that the server has ended
                self.log.exception("It is not known why a server ended: pod=%s", self.pod_name)
        return status

    async def _record_end(self, *, is_stopped: bool) -> None:
        key = f"{self.namespace}/{self.pod_name}"
        there = self.pod_reflector.pods.get(key)
        pod = there or getattr(self.pod_reflector, "ended", {}).get(key) or {}
        events = list(self.event_reflector.resources.values()) if self.event_reflector else ()
        sentence = end_of_pod(pod) or end_of_events(pod, events)
        if not (sentence or there or is_stopped):
            sentence = (self._unannounced_end(key, pod) or REMOVED) if pod else await self._end_of_missing_pod()
        if sentence:
            self.log.warning("A server was ended: pod=%s because=%s", self.pod_name, sentence)
            self.record = ServerRecord.of_end(sentence)

    def _unannounced_end(self, key: str, pod: JsonObject) -> str:
        """What is known of a pod that is gone; JupyterHub itself tells the exit code of one that has ended."""
        phase = str((pod.get("status") or {}).get("phase") or "")
        reflector = self.pod_reflector
        if phase != "Running" or not isinstance(reflector, EndedPodsReflector):
            return ""
        node, is_stopped = str(pod["spec"].get("nodeName") or ""), reflector.is_stopped(key, pod)
        return unannounced_end(node, phase=phase, is_stopped=is_stopped)

    async def _end_of_missing_pod(self) -> str:
        """Why the pod is gone that this hub has not seen, as it was restarted meanwhile."""
        started = self.orm_spawner.started  # the times of events are whole seconds
        path, selector = resource_path("v1", "events", self.namespace), f"involvedObject.name={self.pod_name}"
        try:
            found = await self.kubernetes.list(path, field_selector=selector)
        except KubernetesError as error:
            self.log.info("The events of a pod that is gone are not known: pod=%s %s", self.pod_name, error)
            return REMOVED
        return end_of_missing_pod(found["items"], started and started.replace(tzinfo=UTC, microsecond=0))

    @property
    def trouble(self) -> str:
        """Why the running server may not answer; empty if nothing is known."""
        return trouble_of_pod(self._own_pod() or {})

    def idle_timeout(self) -> int:
        """Seconds without activity after which the running server is stopped; 0 for none."""
        own = self.record.idle_timeout
        return int(self.configured["devices_idle_timeout"] if own is None else own)

    def has_devices(self) -> bool:
        """Whether the server's pod has devices; False if the hub does not see it."""
        return has_devices(self._own_pod() or {})

    async def _start_reflector(self, kind: str, reflector_class: Any, replace: bool = False, **kwargs: Any) -> Any:
        """Start a reflector of KubeSpawner; that of pods also keeps those that are gone."""
        reflector_class = EndedPodsReflector if reflector_class is PodReflector else reflector_class
        return await super()._start_reflector(kind, reflector_class, replace=replace, **kwargs)

    def begin_search_for_smaller(self) -> asyncio.Task[SmallerChoice | None]:
        """Begin to look for something smaller that is free."""
        # Imported here, as most starts succeed.
        from dra_spawner.spawner.smaller_choice import free_smaller_choice

        watch = self.attempt.step(PodWatch)
        return in_background(
            free_smaller_choice(self, self.attempt.plan.specs, watch.seen), "search for a smaller choice"
        )

    async def explain_failure(
        self, refusal: SpawnRefused, search: asyncio.Task[SmallerChoice | None] | None, ends: float
    ) -> None:
        """Remember why the start failed, and tell the user what to do.

        Parameters
        ----------
        search
            For something smaller; None if that would not help.
        ends
            When JupyterHub itself gives up, as the loop's time.
        """
        self.record = ServerRecord.of_failure(str(refusal))
        smaller = None
        if search is not None:
            left = ends - _TELLING_SECONDS - asyncio.get_running_loop().time()
            try:
                smaller = await asyncio.wait_for(search, max(left, _SEARCH_SECONDS))
            except (TimeoutError, asyncio.CancelledError):  # or JupyterHub waits no longer
                self.log.info("No smaller choice was found in time: pod=%s", self.pod_name)
            except Exception:  # whatever profiles there are: the failure is told in any case
                self.log.exception("No smaller choice can be looked for: pod=%s", self.pod_name)
        if refusal.status_code == _TRY_AGAIN_LATER:
            words, fields = (smaller.words, smaller.fields) if smaller is not None else ("", {})
            refusal.jupyterhub_html_message = failure_html(str(refusal), self._spawn_url(), words, fields)

    def _spawn_url(self) -> str:
        """Address of the page with the form of this server."""
        return str(
            url_path_join(self.hub.base_url, "spawn", url_escape_path(self.user.name), url_escape_path(self.name))
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state that JupyterHub stores for this server."""
        return {**super().get_state(), **self.record.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over the stored state of this server."""
        super().load_state(state)
        self.record = ServerRecord.of_state(state)

    def clear_state(self) -> None:
        """Forget the server, but not why its last start failed."""
        super().clear_state()
        self.record = replace(self.record, place="", idle_timeout=None)
