"""Step: make the pod the owner of its objects, and explain why it is pending.

It ends the attempt by an error if waiting cannot help, or if an optional device is not available.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesError, resource_path
from dra_spawner.spawner.devices.diagnosis import Diagnosis, diagnose
from dra_spawner.spawner.devices.held import held_devices, place_words
from dra_spawner.spawner.objects.pod_devices import hopeless_state, unschedulable_message
from dra_spawner.spawner.objects.standing_objects import StandingGoing, StandingRefused
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.settings import SpawnerSettings
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, DevicesGone, Outcome, Step
from dra_spawner.spawner.steps.device_trouble import DeviceTrouble, withdrawn
from dra_spawner.spawner.steps.second_pod import trouble_watch

__all__ = ["PodWatch", "pod_of"]

#: Seconds between diagnoses of an unschedulable pod.
_DIAGNOSIS_SECONDS = 15
#: Seconds between checks of shared objects while the pod is pending; one request each.
_HOLD_SECONDS = 5
#: Seconds between looks at the reflector's copy of the pod; makes no request.
_POD_LOOK_SECONDS = 0.1
#: Seconds to wait for a created pod to be seen.
_POD_SEEN_SECONDS = 10
#: Seconds between looks at a pod that may become unschedulable.
_SCHEDULED_LOOK_SECONDS = 1.0
#: Seconds between copies of its state, for use after its deletion.
_LAST_LOOK_SECONDS = 0.2
#: Looks without the pod after which it counts as deleted.
_LOOKS_UNTIL_GONE = 3
#: Seconds that the request for a server's devices may take.
_PLACE_SECONDS = 2.0
#: Part of the scheduler's message if devices are a reason.
_NO_DEVICE = "cannot allocate all claims"


class PodWatch(Step):
    """Follows the pod of an attempt while it starts.

    Attributes
    ----------
    waiting_for
        Why the pod waits for devices; empty if it does not.
    seen
        Last seen state of the pod.
    """

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self.waiting_for = ""
        self.seen: JsonObject = {}
        self._trouble = trouble_watch(self.spawner)
        self._unschedulable_since: float | None = None
        self._next_diagnosis = 0.0
        self._next_hold = 0.0
        self._place_is_asked = False

    def requested(self, outcome: Outcome) -> None:
        """Begin to follow a created pod with devices."""
        attempt = self.attempt
        if outcome is Outcome.CREATED and attempt.named_objects is not None and attempt.tasks is not None:
            attempt.tasks.create_task(self.give_objects_to_pod())
            attempt.following = attempt.tasks.create_task(self.follow())

    @property
    def _objects(self) -> StartObjects:
        assert self.attempt.objects is not None
        return self.attempt.objects

    def _look(self) -> JsonObject | None:
        return pod_of(self.spawner, self._objects)

    def _events(self) -> Iterable[JsonObject]:
        """Return the events of all servers; not sorted, as ``event_reflector.events`` is at each call."""
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
            self.log.warning("Did not see the pod that was created; the sweep will make it owner of its objects")
            return
        for wait in (0.1, 0.5, None):
            try:
                await self._objects.give_to_pod(self.spawner.pod_name, pod["metadata"]["uid"])
            except KubernetesError as error:
                if wait and error.retryable:
                    await asyncio.sleep(wait)
                    continue
                # The server can start all the same; its stop or the sweep makes up for it.
                self.log.warning("Could not make the pod owner of what was made for it: %s", error)
            return

    async def follow(self) -> None:
        """Explain why the pod waits for devices, until cancelled.

        Raises
        ------
        SpawnRefused
            If waiting cannot help.
        DevicesGone
            If it should start without optional devices.
        DeviceTrouble
            If the pod has devices and cannot run with them.
        """
        self.seen = await self._see_or_miss()
        loop = asyncio.get_running_loop()
        self._next_hold = loop.time() + _HOLD_SECONDS
        looks_without, next_judgement = 0, 0.0
        while looks_without < _LOOKS_UNTIL_GONE:
            pod = self._look()
            self.seen = pod or self.seen  # a pod that is evicted is marked only just before
            if self.seen["spec"].get("nodeName") and self.attempt.tasks is not None:
                self.attempt.tasks.create_task(self.tell_place())
            if loop.time() >= next_judgement:
                next_judgement = loop.time() + _SCHEDULED_LOOK_SECONDS
                looks_without = 0 if pod else looks_without + 1
                if pod:
                    await self._judge(pod)
            await asyncio.sleep(_LAST_LOOK_SECONDS)
        if self._trouble is not None and (trouble := withdrawn(self.seen, self._events())):
            raise DeviceTrouble(trouble, self.seen)
        raise _deleted()

    async def tell_place(self) -> None:
        """Tell the user which devices on which node the server has, once. Raises no error: a start needs no words."""
        pod = self._look() or self.seen
        node = (pod.get("spec") or {}).get("nodeName")
        if not node or self._place_is_asked:
            return
        self._place_is_asked = True
        try:
            async with asyncio.timeout(_PLACE_SECONDS):
                devices = await held_devices(self._objects.api, pod)
            is_warm = bool(self._objects.warm_claims)
            self.attempt.messages.found_place(place_words(devices, node, warm=is_warm))
        except (KubernetesError, TimeoutError) as error:
            self.log.info("The devices of a server are not told: pod=%s %r", self.spawner.pod_name, error)
        except Exception:  # whatever is in a claim that others made
            self.log.exception("The devices of a server are not told: pod=%s", self.spawner.pod_name)

    async def _see_or_miss(self) -> JsonObject:
        """Wait for the pod, which may be deleted before the reflector shows it."""
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
        if self._trouble is not None:
            trouble = self._trouble.judge(pod, self._events, asyncio.get_running_loop().time())
            if trouble is not None:
                raise DeviceTrouble(trouble, pod)
        sentence = hopeless_state(pod)
        if sentence:
            raise SpawnRefused(sentence, RefusalReason.POD, 503)
        if not pod["spec"].get("nodeName"):
            await self._hold_again()
        message = unschedulable_message(pod)
        if message is None:
            self.waiting_for, self._unschedulable_since, self._next_diagnosis = "", None, 0.0
            if self._trouble is not None and (failing := self._trouble.failing(pod)):
                self.waiting_for = failing.sentence(())
            return
        now = asyncio.get_running_loop().time()
        if self._unschedulable_since is None:
            self._unschedulable_since = now
        if now < self._next_diagnosis:
            return
        self._next_diagnosis = now + _DIAGNOSIS_SECONDS
        gives_up = self._unschedulable_since + self.spawner.optional_devices_wait_seconds
        if self.attempt.plan.fallback is not None and now < gives_up:
            self._next_diagnosis = min(self._next_diagnosis, gives_up)
        await self._explain(message, gave_up=now >= gives_up)

    async def _explain(self, message: str, gave_up: bool) -> None:
        taken = self._objects.warm_claims
        standing = {name: each.object.name for name, each in self._objects.standing.items()} | taken
        try:
            pod = self._look() or {}
            diagnosis = await diagnose(
                self.spawner.devices, self.attempt.plan.specs, standing, self._objects.namespace, pod, taken
            )
        except Exception:
            # The start goes on without an explanation.
            self.log.exception("Could not explain why %s waits", self.spawner.pod_name)
            diagnosis = Diagnosis()
        if diagnosis.detail and diagnosis.sentence != self.waiting_for:
            self.log.warning("A pod waits for devices: pod=%s because=%s", self.spawner.pod_name, diagnosis.detail)
        if self.attempt.plan.fallback is not None and (
            diagnosis.hopeless or (gave_up and _for_devices(message, diagnosis))
        ):
            raise DevicesGone("No device is free any more for this choice; this server starts without it.")
        if diagnosis.hopeless:
            raise SpawnRefused(diagnosis.sentence, RefusalReason.DEVICE_CLASS)
        if diagnosis.sentence and diagnosis.sentence != self.waiting_for:
            self.attempt.messages.notify(diagnosis.while_waiting)
        self.waiting_for = diagnosis.sentence

    async def _hold_again(self) -> None:
        """Create a deleted shared claim again, for which the pod would wait for ever."""
        now = asyncio.get_running_loop().time()
        if not self._objects.standing or now < self._next_hold:
            return
        self._next_hold = now + _HOLD_SECONDS
        try:
            await self._objects.hold_standing(self.attempt.named_objects or ())
        except StandingRefused as refusal:
            self.log.warning("Start ended, a shared object cannot be used: %s", refusal.detail)
            raise SpawnRefused(str(refusal), RefusalReason.CLUSTER, 503) from refusal
        except (KubernetesError, StandingGoing) as error:
            self.log.warning("Could not see to what is shared with other servers, trying again: %s", error)


def pod_of(spawner: SpawnerSettings, objects: StartObjects) -> JsonObject | None:
    """Return the reflector's copy of the pod, if it belongs to these objects' attempt."""
    pod: JsonObject | None = spawner.pod_reflector.pods.get(f"{spawner.namespace}/{spawner.pod_name}")
    is_own = pod and pod["metadata"].get("annotations", {}).get(names.START) == objects.nonce
    return pod if is_own else None


def _deleted() -> SpawnRefused:
    return SpawnRefused("The server's pod was deleted while it started.", RefusalReason.POD, 503)


def _for_devices(message: str, diagnosis: Diagnosis) -> bool:
    """Whether a pod waits for devices."""
    return diagnosis.fits is False or _NO_DEVICE in message
