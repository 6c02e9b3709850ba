"""Step: make the pod the owner of its objects, and explain why it is pending.

It ends the attempt with an error if waiting cannot help, or if an optional device is not available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import KubernetesError, resource_path
from dra_spawner.kube.pod_ends import end_of_events, end_of_pod
from dra_spawner.spawner.devices.claim_reader import claim_reader
from dra_spawner.spawner.devices.held import claim_names, devices_of, place_text
from dra_spawner.spawner.hub_parts.hub_wide import this_hub
from dra_spawner.spawner.objects.pod_devices import terminal_problem, unschedulable_message
from dra_spawner.spawner.objects.shared_objects import SharedRefused, SharedTerminating
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.placement.pod import waits_for_placeholder
from dra_spawner.spawner.server_context import ServerContext
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, CreationOutcome, OptionalDevicesUnavailable, Step
from dra_spawner.spawner.steps.pod_failures import PodCannotRun, PodFailure, withdrawn
from dra_spawner.spawner.steps.second_pod import failure_watch

if TYPE_CHECKING:
    from dra_spawner.spawner.devices.diagnosis import Diagnosis
    from dra_spawner.spawner.placement.settings_changes import SettingsChanges

#: Seconds between diagnoses of an unschedulable pod.
_DIAGNOSIS_SECONDS = 15
#: The same once after people have changed settings of the service, as it takes a moment to close a node or a device.
_CHANGED_SECONDS = 3
#: Seconds between checks of shared objects while the pod is pending; one request each.
_SHARED_CHECK_SECONDS = 5
#: Seconds between checks of the reflector's copy of the pod; they make no requests.
_POD_LOOK_SECONDS = 0.1
#: Seconds until a created pod must be in the reflector.
_POD_SEEN_SECONDS = 10
#: Seconds between checks of a pod that may become unschedulable, or fail.
_SCHEDULED_LOOK_SECONDS = 1.0
#: Seconds between checks of a pod that has no node yet, so that users soon read where their server is.
_NODE_LOOK_SECONDS = 0.2
#: Checks without the pod after which it counts as deleted.
_LOOKS_UNTIL_GONE = 3
#: Seconds that the request for a server's devices may take.
_PLACE_SECONDS = 5.0
_DELETED = "The server's pod was deleted while it started."
#: Part of the scheduler's message if devices are missing.
_NO_DEVICE = "cannot allocate all claims"


class PodWatch(Step):
    """Follows the pod of an attempt while it starts, and publishes why the pod waits."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._progress = attempt.progress
        self._failures = failure_watch(self.spawner, attempt.retry)
        self._unschedulable_since: float | None = None
        self._next_diagnosis = 0.0
        self._changes_heard: int | None = None
        self._next_shared_check = 0.0
        self._telling: asyncio.Task[None] | None = None

    def requested(self, outcome: CreationOutcome) -> None:
        """Begin to follow a created pod."""
        attempt = self.attempt
        if outcome is not CreationOutcome.CREATED or attempt.tasks is None:
            return
        if attempt.named_objects is None:
            attempt.following = attempt.tasks.create_task(self.follow_without_devices())
            return
        attempt.tasks.create_task(self.give_objects_to_pod())
        attempt.following = attempt.tasks.create_task(self.follow())

    @property
    def _objects(self) -> StartObjects:
        assert self.attempt.objects is not None
        return self.attempt.objects

    def _look(self) -> JsonObject | None:
        return pod_of(self.server, self._objects)

    def _ended(self) -> JsonObject | None:
        """The last state of the pod if it is gone."""
        return _own(self.server.ended_pod(), self._objects)

    def _events(self) -> Iterable[JsonObject]:
        """Return the events of all servers, unsorted; ``event_reflector.events`` would sort them at each call."""
        reflector = self.spawner.event_reflector
        return list(reflector.resources.values()) if reflector else ()

    async def _own_pod(self) -> JsonObject:
        """Wait for the reflector to show the pod."""
        while (pod := self._look()) is None:  # noqa: ASYNC110 - the reflector has no event
            await asyncio.sleep(_POD_LOOK_SECONDS)
        return pod

    async def give_objects_to_pod(self) -> None:
        """Make the pod the owner of its own objects."""
        try:
            async with asyncio.timeout(_POD_SEEN_SECONDS):
                pod = await self._own_pod()
        except TimeoutError:
            self.log.warning("Did not see the created pod; the sweep will make it the owner of its objects")
            return
        for wait in (0.1, 0.5, None):
            try:
                await self._objects.give_to_pod(self.spawner.pod_name, pod["metadata"]["uid"])
            except KubernetesError as error:
                if wait and error.retryable:
                    await asyncio.sleep(wait)
                    continue
                # The server can start anyway; its stop, or the sweep, removes the objects.
                self.log.warning("Could not make the pod the owner of its objects: %s", error)
            return

    async def follow(self) -> None:
        """Explain why the pod waits for devices, until cancelled.

        Raises
        ------
        SpawnRefused
            If waiting cannot help.
        OptionalDevicesUnavailable
            If the server should start without optional devices.
        PodCannotRun
            If the pod has its devices but cannot run.
        """
        self._progress.pod = await self._see_or_miss()
        loop = asyncio.get_running_loop()
        self._next_shared_check = loop.time() + _SHARED_CHECK_SECONDS
        missed_looks, next_judgement = 0, 0.0
        while True:
            pod = self._look()
            # The condition of an evicted pod appears just before its deletion.
            self._progress.pod = pod or self._ended() or self._progress.pod
            if has_node := bool(self._progress.pod["spec"].get("nodeName")):
                self.tell_place()
            if loop.time() >= next_judgement:
                next_judgement = loop.time() + _SCHEDULED_LOOK_SECONDS
                missed_looks = 0 if pod else missed_looks + 1
                if pod:
                    await self._judge(pod)
                elif missed_looks >= _LOOKS_UNTIL_GONE:
                    if await self._is_gone():
                        break
                    missed_looks = 0
            await asyncio.sleep(_SCHEDULED_LOOK_SECONDS if has_node else _NODE_LOOK_SECONDS)
        if self._failures is not None and (failure := await self._withdrawal()):
            raise PodCannotRun(failure, self._progress.pod)
        raise _deleted(end_of_pod(self._progress.pod) or end_of_events(self._progress.pod, self._events()))

    async def follow_without_devices(self) -> None:
        """Explain why a pod without devices is held back. No gate comes later, so most pods are looked at once."""
        try:
            while (pod := self.server.pod()) is None or _is_held_back(pod) or pod["metadata"].get("deletionTimestamp"):
                if pod is not None and _is_held_back(pod):
                    await self._tell_held_back(pod)
                await asyncio.sleep(_SCHEDULED_LOOK_SECONDS)
        except Exception:
            # The start continues without an explanation.
            self.log.exception("Could not explain why %s waits", self.spawner.pod_name)
        self._progress.held_back = ""

    @property
    def _changes(self) -> SettingsChanges:
        from dra_spawner.spawner.placement.settings_changes import settings_changes  # most pods wait for nothing

        return settings_changes(self.spawner.placeholder_service, self.spawner.placeholder_service_ca_file)

    async def _withdrawal(self) -> PodFailure | None:
        """Why the deleted pod was withdrawn; None if it was not. The watch of events may be behind that of pods."""
        failure = withdrawn(self._progress.pod, self._events())
        if failure is not None:
            return failure
        path, uid = resource_path("v1", "events", self._objects.namespace), self._progress.pod["metadata"]["uid"]
        try:
            found = await self._objects.api.list(path, field_selector=f"involvedObject.uid={uid}")
        except KubernetesError as error:
            self.log.info("The events of a deleted pod are not known: pod=%s %s", self.spawner.pod_name, error)
            return None
        return withdrawn(self._progress.pod, found["items"])

    async def _is_gone(self) -> bool:
        """Whether the API server has no pod of this start. A reflector that KubeSpawner replaces is empty at first."""
        path = resource_path("v1", "pods", self._objects.namespace, self.spawner.pod_name)
        try:
            pod = await self._objects.api.get(path)
        except KubernetesError as error:
            return error.not_found
        return (pod["metadata"].get("annotations") or {}).get(names.START) != self._objects.nonce

    def tell_place(self) -> asyncio.Task[None]:
        """Begin to tell the user which devices on which node the server has, once. The start does not wait for it."""
        if self._telling is None:
            self._telling = this_hub().begin(self._tell_place(self._look() or self._progress.pod), "devices of a start")
        return self._telling

    async def _tell_place(self, pod: JsonObject) -> None:
        objects = self._objects  # the attempt may end, and its objects with it, while the claims are read
        try:
            async with asyncio.timeout(_PLACE_SECONDS):
                claims = await claim_reader(objects.api, objects.namespace).claims(claim_names(pod))
            place = place_text(
                devices_of(claims),
                pod["spec"].get("nodeName") or "",
                warm=bool(objects.warm_claims) and not waits_for_placeholder(pod),
            )
            self.attempt.messages.found_place(place)
        except (KubernetesError, TimeoutError) as error:
            self.log.info("The devices of a server are not told: pod=%s %r", self.spawner.pod_name, error)
        except Exception:  # whatever is in a claim that others made
            self.log.exception("The devices of a server are not told: pod=%s", self.spawner.pod_name)

    async def _see_or_miss(self) -> JsonObject:
        """Wait for the pod; raise if it is deleted before the reflector shows it."""
        path = resource_path("v1", "pods", self._objects.namespace, self.spawner.pod_name)
        while True:
            try:
                async with asyncio.timeout(_POD_SEEN_SECONDS):
                    return await self._own_pod()
            except TimeoutError:
                pass
            try:
                await self._objects.api.get(path)
            except KubernetesError as error:
                if error.not_found:
                    raise _deleted() from error

    async def _judge(self, pod: JsonObject) -> None:
        if self._failures is not None:
            failure = self._failures.judge(pod, self._events, asyncio.get_running_loop().time())
            if failure is not None:
                raise PodCannotRun(failure, pod)
        sentence = terminal_problem(pod)
        if sentence:
            raise SpawnRefused(sentence, RefusalReason.POD, 503)
        if not pod["spec"].get("nodeName"):
            await self._ensure_shared()
        if _is_held_back(pod):
            await self._tell_held_back(pod)
            return
        self._progress.held_back = ""
        message = unschedulable_message(pod)
        if message is None:
            self._progress.waiting_for, self._unschedulable_since, self._next_diagnosis = "", None, 0.0
            if self._failures is not None and (failing := self._failures.failing(pod)):
                self._progress.waiting_for = failing.sentence(())
            return
        now = asyncio.get_running_loop().time()
        if self._unschedulable_since is None:
            self._unschedulable_since = now
        before, self._changes_heard = self._changes_heard, self._changes.heard()
        is_changed = before not in (None, self._changes_heard)
        if now < self._next_diagnosis and not is_changed:
            return
        self._next_diagnosis = now + (_CHANGED_SECONDS if is_changed else _DIAGNOSIS_SECONDS)
        gives_up = self._unschedulable_since + self.spawner.optional_devices_wait_seconds
        if self.attempt.plan.fallback is not None and now < gives_up:
            self._next_diagnosis = min(self._next_diagnosis, gives_up)
        await self._explain(message, is_late=now >= gives_up)

    async def _tell_held_back(self, pod: JsonObject) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next_diagnosis:
            return
        self._next_diagnosis = now + _DIAGNOSIS_SECONDS
        from dra_spawner.spawner.devices.held_back import gates_of, why_held_back  # few pods have gates

        why = await why_held_back(self.server.kubernetes, pod)
        if why.while_waiting != self.attempt.messages.sentence:
            self.log.info("A pod is held back: pod=%s gates=%s", self.spawner.pod_name, ",".join(gates_of(pod)))
            self.attempt.messages.notify(why.while_waiting)
        self._progress.held_back = why.sentence

    async def _explain(self, message: str, is_late: bool) -> None:
        from dra_spawner.spawner.devices.diagnosis import Diagnosis, diagnose  # most pods wait for nothing
        from dra_spawner.spawner.placement.drain_ends import drain_ends
        from dra_spawner.spawner.placement.service import service_of_hub

        taken, service = self._objects.warm_claims, self.spawner.placeholder_service
        shared = {name: each.object.name for name, each in self._objects.shared.items()} | taken
        try:
            pod = self._look() or {}
            diagnosis = await diagnose(
                self.server.devices,
                self.attempt.plan.specs,
                shared,
                self._objects.namespace,
                pod,
                taken,
                lambda: drain_ends(service_of_hub(service, self.spawner.placeholder_service_ca_file)),
            )
        except Exception:
            # The start continues without an explanation.
            self.log.exception("Could not explain why %s waits", self.spawner.pod_name)
            diagnosis = Diagnosis()
        if diagnosis.detail and diagnosis.sentence != self._progress.waiting_for:
            self.log.warning("A pod waits for devices: pod=%s because=%s", self.spawner.pod_name, diagnosis.detail)
        if self.attempt.plan.fallback is not None and (
            diagnosis.is_permanent or (is_late and _for_devices(message, diagnosis))
        ):
            raise OptionalDevicesUnavailable(
                "No device is free any more for this choice; this server starts without it."
            )
        if diagnosis.is_permanent:
            raise SpawnRefused(diagnosis.sentence, RefusalReason.DEVICE_CLASS)
        if diagnosis.sentence and diagnosis.sentence != self._progress.waiting_for:
            self.attempt.messages.notify(diagnosis.while_waiting)
        elif diagnosis.fits and self._progress.waiting_for and not diagnosis.sentence:
            self.attempt.messages.forget_reason()
        self._progress.waiting_for = diagnosis.sentence

    async def _ensure_shared(self) -> None:
        """Create a deleted shared claim again, as the pod would wait for it for ever."""
        now = asyncio.get_running_loop().time()
        if not self._objects.shared or now < self._next_shared_check:
            return
        self._next_shared_check = now + _SHARED_CHECK_SECONDS
        try:
            await self._objects.ensure_shared(self.attempt.named_objects or ())
        except SharedRefused as refusal:
            self.log.warning("Start ended, a shared object cannot be used: %s", refusal.detail)
            raise SpawnRefused(str(refusal), RefusalReason.CLUSTER, 503) from refusal
        except (KubernetesError, SharedTerminating) as error:
            self.log.warning("Could not check the objects that are shared with other servers, trying again: %s", error)


def pod_of(server: ServerContext, objects: StartObjects) -> JsonObject | None:
    """Return the reflector's copy of the pod if it belongs to the attempt of these objects; else None."""
    return _own(server.pod(), objects)


def _own(pod: JsonObject | None, objects: StartObjects) -> JsonObject | None:
    is_own = pod and (pod["metadata"].get("annotations") or {}).get(names.START) == objects.nonce
    return pod if is_own else None


def _is_held_back(pod: JsonObject) -> bool:
    """Whether scheduling gates keep the scheduler from a pod."""
    return bool(pod["spec"].get("schedulingGates")) and not pod["spec"].get("nodeName")


def _deleted(because: str = "") -> SpawnRefused:
    sentence = f"The server was ended while it started. {because}" if because else _DELETED
    return SpawnRefused(sentence, RefusalReason.POD, 503)


def _for_devices(message: str, diagnosis: Diagnosis) -> bool:
    """Whether a pod waits for devices."""
    return diagnosis.fits is False or _NO_DEVICE in message
