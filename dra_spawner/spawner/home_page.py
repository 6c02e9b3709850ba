"""What the home page tells of a server, and the end of a server that ran: by Kubernetes, or since nobody uses it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

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
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.objects.start_objects import utc_now
from dra_spawner.spawner.progress.ended_pods import EndedPodsReflector
from dra_spawner.spawner.progress.idle_servers import has_devices, has_notice, idle_seconds, idle_sentence
from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.start_progress import StartProgress
from dra_spawner.spawner.server_context import ServerContext, parts_of

if TYPE_CHECKING:
    from dra_spawner.spawner.devices.reader import Reading
    from dra_spawner.spawner.my_devices.own_devices import OwnDevices
    from dra_spawner.spawner.progress.activity_report import ActivityReport
    from dra_spawner.spawner.progress.session_time import SessionTime

#: Age in seconds of what the home page says about devices, from which it is read again, and from which it is not said.
_DEVICE_NOTE_SECONDS = 2.0
_OLD_DEVICE_NOTE_SECONDS = 60.0
#: Seconds of a server's lifetime after which they are stored.
_STORED_EACH_SECONDS = 60.0
_HUB_RESTARTED = "The hub was restarted while your server was starting. Please start it again."


class HomePage:
    """What the home page tells of one server.

    Attributes
    ----------
    record
        What is told of the last start and of the server's end.
    report
        What the server has reported of its kernels last; None if it has not.
    """

    def __init__(self, server: ServerContext) -> None:
        self._server = server
        self._spawner = server.spawner
        self.record = ServerRecord()
        self.report: ActivityReport | None = None
        self._last_start: StartProgress | None = None
        self._is_stopping = False
        self._stored_at = 0.0

    # The start

    def record_start(self, progress: StartProgress) -> None:
        """Forget the last start."""
        self.record, self.report, self._last_start = ServerRecord(), None, progress
        getattr(self._spawner.pod_reflector, "ended", {}).pop(self._server.pod_key, None)

    def record_place(self, progress: StartProgress, told: asyncio.Task[None] | None) -> None:
        """Remember the devices of a start that has succeeded, as soon as they are known.

        Parameters
        ----------
        told
            Task that finds the devices; None for a server without devices.
        """
        timeout = self._spawner.devices_idle_timeout
        own = timeout != self._server.configured["devices_idle_timeout"]
        self.record = ServerRecord(
            progress.messages.place,
            idle_timeout=timeout if own else None,
            session=self._new_session(),
            instead=progress.messages.instead,
        )
        if told is not None and not self.record.place:
            this_hub().begin(self._record_place(progress, told), "record of devices")

    def _new_session(self) -> SessionTime | None:
        """The lifetime of a server that has started just now; None without a limit."""
        spawner = self._spawner
        self._stored_at = 0.0
        if not spawner.devices_lifetime:
            return None
        from dra_spawner.spawner.progress.session_time import SessionTime  # few hubs have a limit

        now = asyncio.get_running_loop().time()
        return SessionTime(spawner.devices_lifetime, spawner.devices_lifetime_notice, seen_at=now)

    async def _record_place(self, progress: StartProgress, told: asyncio.Task[None]) -> None:
        await told
        place, spawner = progress.messages.place, self._spawner
        if self._last_start is progress and spawner.server is not None and place:
            self.record = replace(self.record, place=place)
            # JupyterHub saved the state already; this change is saved with its next commit.
            spawner.orm_spawner.state = spawner.get_state()

    def record_failure(self, sentence: str) -> None:
        """Remember why a start failed."""
        self.record = ServerRecord.of_failure(sentence)

    def record_stop(self) -> None:
        """Remember why JupyterHub stops a server: a start that the hub finds after its own restart does not answer."""
        pod = self._server.pod() or {}
        phase = (pod.get("status") or {}).get("phase")
        if self._last_start is None and phase == "Pending":
            self.record_failure(_HUB_RESTARTED)
        elif has_notice(pod):
            from dra_spawner.spawner.idle_devices.idle_notes import notice_of_pod, stop_sentence  # few hubs stop any

            if sentence := stop_sentence(notice_of_pod(pod), utc_now()):
                # A server that does not stop keeps its limits.
                end = ServerRecord.of_end(sentence)
                self.record = replace(end, idle_timeout=self.record.idle_timeout, session=self.record.session)

    def forget_server(self) -> None:
        """Forget the server, but not why its last start failed."""
        self.record = replace(self.record, place="", idle_timeout=None, session=None, instead="")
        self.report = None

    # The server

    @property
    def trouble(self) -> str:
        """Why the running server may not answer; empty if nothing is known."""
        return trouble_of_pod(self._server.pod() or {})

    def begin_device_look(self) -> asyncio.Task[Any] | None:
        """Begin to read the devices of the running server; None if it has none, or if they were read just now."""
        reading = self._reading_of_devices()
        return reading.begin() if reading is not None and reading.age() > _DEVICE_NOTE_SECONDS else None

    def device_note(self) -> str:
        """Why a device of the running server is out of use, as it was read last; empty if none is."""
        reading = self._reading_of_devices()
        # What is older may be over.
        known = reading.value if reading is not None and reading.age() <= _OLD_DEVICE_NOTE_SECONDS else None
        return known.withdrawn if known is not None else ""

    def _reading_of_devices(self) -> Reading[OwnDevices] | None:
        if not has_devices(self._server.pod() or {}):
            return None
        from dra_spawner.spawner.my_devices.my_devices_handler import devices_of_server  # few hubs' users look

        return devices_of_server(parts_of(self._spawner))

    def idle_note(self) -> JsonObject | None:
        """The warning that the running server is stopped for being idle; None without one."""
        pod = self._server.pod() or {}
        if not has_notice(pod):
            return None
        from dra_spawner.spawner.idle_devices.idle_notes import idle_note, notice_of_pod  # few hubs stop any

        return idle_note(notice_of_pod(pod), utc_now())

    def kept_note(self) -> str:
        """Until when the running server is kept although it is idle; empty if its user has not asked for it."""
        pod = self._server.pod() or {}
        if not has_notice(pod):
            return ""
        from dra_spawner.spawner.idle_devices.idle_notes import kept_sentence, notice_of_pod  # few hubs stop any

        return kept_sentence(notice_of_pod(pod), utc_now())

    def idle_timeout(self) -> int:
        """Seconds without activity after which the running server is stopped; 0 for none."""
        own = self.record.idle_timeout
        return int(self._server.configured["devices_idle_timeout"] if own is None else own)

    def session(self) -> SessionTime | None:
        """The lifetime of the running server, counted until now; None without a limit, and without devices."""
        # A pod that the hub does not see counts as one without devices.
        if self.record.session is None or not has_devices(self._server.pod() or {}):
            return None
        session = self.record.session.at(asyncio.get_running_loop().time())
        self.record = replace(self.record, session=session)
        return session

    async def stop_if_due(self) -> int | None:
        """Stop a running server with devices that nobody uses, or whose time is over.

        Returns
        -------
        int or None
            Its exit code, by which JupyterHub learns of its end; None if it runs on.
        """
        if not self._spawner.ready or self._is_stopping or not has_devices(self._server.pod() or {}):
            return None
        sentence = self._end_by_limit()
        if not sentence:
            return None
        self._is_stopping = True
        try:
            await self._spawner.stop()
        except Exception:  # the next poll tries again
            self._server.log.exception("A server with devices could not be stopped: pod=%s", self._spawner.pod_name)
            return None
        finally:
            self._is_stopping = False
        self.record = ServerRecord.of_end(sentence)
        return 0

    def _end_by_limit(self) -> str:
        """Why the running server is to be stopped now; empty if it is not."""
        spawner, session = self._spawner, self.session()
        if session is not None:
            if session.is_over:
                self._server.log.info("A server with devices is stopped, as its time is over: pod=%s", spawner.pod_name)
                return session.end_sentence
            if session.ran - self._stored_at >= _STORED_EACH_SECONDS:
                self._stored_at = session.ran
                spawner.orm_spawner.state = spawner.get_state()  # saved with JupyterHub's next commit
        limit, known = self.idle_timeout(), spawner.orm_spawner
        if not limit:
            return ""
        seconds = idle_seconds(known.last_activity, known.started, utc_now().replace(tzinfo=None))
        if seconds < limit:
            return ""
        self._server.log.info(
            "A server with devices is stopped, as it is idle: pod=%s seconds=%d", spawner.pod_name, seconds
        )
        return idle_sentence(limit)

    async def record_end(self, *, is_stopped: bool) -> None:
        """Remember why Kubernetes ended a server that ran.

        Parameters
        ----------
        is_stopped
            Whether KubeSpawner has stopped it in the poll that noticed its end.
        """
        spawner = self._spawner
        is_stopping = spawner._spawn_pending or spawner._stop_pending
        if spawner.server is None or is_stopping or self.record.failure:
            return
        try:
            sentence = await self._end_sentence(is_stopped)
        except Exception:  # the hub must learn that the server has ended
            self._server.log.exception("It is not known why a server ended: pod=%s", spawner.pod_name)
            return
        if sentence:
            self._server.log.warning("A server was ended: pod=%s because=%s", spawner.pod_name, sentence)
            self.record = ServerRecord.of_end(sentence)

    async def _end_sentence(self, is_stopped: bool) -> str:
        there = self._spawner.pod_reflector.pods.get(self._server.pod_key)
        pod = there or self._server.ended_pod() or {}
        reflector = self._spawner.event_reflector
        sentence = end_of_pod(pod) or end_of_events(pod, list(reflector.resources.values()) if reflector else ())
        if sentence or there or is_stopped:
            return sentence
        return (self._unannounced_end(pod) or REMOVED) if pod else await self._end_of_missing_pod()

    def _unannounced_end(self, pod: JsonObject) -> str:
        """What is known of a pod that is gone; JupyterHub itself tells the exit code of one that has ended."""
        phase = str((pod.get("status") or {}).get("phase") or "")
        reflector = self._spawner.pod_reflector
        if phase != "Running" or not isinstance(reflector, EndedPodsReflector):
            return ""
        node, is_stopped = str(pod["spec"].get("nodeName") or ""), reflector.is_stopped(self._server.pod_key, pod)
        return unannounced_end(node, phase=phase, is_stopped=is_stopped)

    async def _end_of_missing_pod(self) -> str:
        """Why the pod is gone that this hub has not seen, as it was restarted meanwhile."""
        spawner = self._spawner
        started = spawner.orm_spawner.started  # the times of events are whole seconds
        path, selector = resource_path("v1", "events", spawner.namespace), f"involvedObject.name={spawner.pod_name}"
        try:
            found = await self._server.kubernetes.list(path, field_selector=selector)
        except KubernetesError as error:
            self._server.log.info("The events of a pod that is gone are not known: pod=%s %s", spawner.pod_name, error)
            return REMOVED
        return end_of_missing_pod(found["items"], started and started.replace(tzinfo=UTC, microsecond=0))
