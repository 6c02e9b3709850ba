"""Follows the pod of one start: makes it the owner of what was made for it, and says why it waits.

Where waiting cannot help, or a device that the server can do without is not to be had, it ends the start by an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from logging import Logger

from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import KubernetesError, resource_path
from dra_spawner.profiles import ClaimPlan
from dra_spawner.spawner.diagnosis import Diagnosis, diagnose
from dra_spawner.spawner.objects.standing_objects import StandingGoing, StandingRefused
from dra_spawner.spawner.objects.start_objects import StartObjects
from dra_spawner.spawner.pod_devices import hopeless_state, unschedulable_message
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.start_trouble import DeviceTrouble, TroubleWatch, withdrawn

#: How often an unschedulable start is looked into again.
_DIAGNOSIS_SECONDS = 15
#: How often a start that has no node yet makes sure of what it shares with others; one request each.
_HOLD_SECONDS = 5
#: How often the reflector's copy of the pod is looked at; no request is made.
_POD_LOOK_SECONDS = 0.1
#: For how long a pod that was created is looked for.
_POD_SEEN_SECONDS = 10
#: How often a pod is looked at that may become unschedulable.
_SCHEDULED_LOOK_SECONDS = 1.0
#: How often its present state is remembered, for when it is gone.
_LAST_LOOK_SECONDS = 0.2
#: After how many looks without it a pod that was there counts as deleted.
_LOOKS_UNTIL_GONE = 3
#: In the scheduler's message, where devices are the reason or one of them.
_NO_DEVICE = "cannot allocate all claims"


class DevicesGone(Exception):
    """Raised where the server is to start without its optional devices; the message says so to the user."""


@dataclass
class StartWatch:
    """Follows the pod of one start.

    Attributes
    ----------
    look
        The pod as the reflector has it, if it is this start's.
    tell
        Shows the user a sentence.
    named
        Names of the templates and claims that the pod names.
    patience_seconds
        For how long the scheduler may look for optional devices.
    trouble
        Judges whether the pod is to be made again; None if pods are not.
    events
        Gives the Event objects that there are, also of other pods.
    waiting_for
        Why the pod waits for devices; empty if it does not.
    seen
        The pod as it was seen last.
    """

    objects: StartObjects
    plan: ClaimPlan
    pod_name: str
    named: set[str]
    look: Callable[[], JsonObject | None]
    tell: Callable[[str], None]
    log: Logger
    patience_seconds: float
    trouble: TroubleWatch | None = None
    events: Callable[[], Iterable[JsonObject]] = tuple
    waiting_for: str = ""
    seen: JsonObject = field(default_factory=dict)
    _unschedulable_since: float | None = None
    _next_diagnosis: float = 0.0
    _next_hold: float = 0.0

    async def _own_pod(self) -> JsonObject:
        """The pod, as soon as the reflector shows it."""
        while (pod := self.look()) is None:  # noqa: ASYNC110 - the reflector has no event
            await asyncio.sleep(_POD_LOOK_SECONDS)
        return pod

    async def give_objects_to_pod(self) -> None:
        """Make the pod the owner of what was made for it alone."""
        try:
            async with asyncio.timeout(_POD_SEEN_SECONDS):
                pod = await self._own_pod()
        except TimeoutError:
            self.log.warning("Did not see the pod that was created; the sweep will make it owner of its objects")
            return
        for wait in (0.1, 0.5, None):
            try:
                await self.objects.give_to_pod(self.pod_name, pod["metadata"]["uid"])
            except KubernetesError as error:
                if wait and error.retryable:
                    await asyncio.sleep(wait)
                    continue
                # The server can start all the same; its stop or the sweep makes up for it.
                self.log.warning("Could not make the pod owner of what was made for it: %s", error)
            return

    async def follow(self) -> None:
        """Explain why the pod waits for devices, for ever.

        Raises
        ------
        SpawnRefused
            Where waiting cannot help.
        DevicesGone
            Where it should start without optional devices.
        DeviceTrouble
            Where the pod has devices and does not get to run with them.
        """
        self.seen = await self._see_or_miss()
        loop = asyncio.get_running_loop()
        self._next_hold = loop.time() + _HOLD_SECONDS
        looks_without, next_judgement = 0, 0.0
        while looks_without < _LOOKS_UNTIL_GONE:
            pod = self.look()
            self.seen = pod or self.seen  # a pod that is evicted is marked only just before
            if loop.time() >= next_judgement:
                next_judgement = loop.time() + _SCHEDULED_LOOK_SECONDS
                looks_without = 0 if pod else looks_without + 1
                if pod:
                    await self._judge(pod)
            await asyncio.sleep(_LAST_LOOK_SECONDS)
        if self.trouble is not None and (trouble := withdrawn(self.seen, self.events())):
            raise DeviceTrouble(trouble, self.seen)
        raise _deleted()

    async def _see_or_miss(self) -> JsonObject:
        """Wait for the pod, and give it; it may be deleted before the reflector shows it."""
        path = resource_path("v1", "pods", self.objects.namespace, self.pod_name)
        while True:
            try:
                async with asyncio.timeout(_POD_SEEN_SECONDS):
                    return await self._own_pod()
            except TimeoutError:
                pass
            try:
                await self.objects.api.get(path)
            except KubernetesError as error:
                if error.not_found:
                    raise _deleted() from error

    async def _judge(self, pod: JsonObject) -> None:
        if self.trouble is not None:
            trouble = self.trouble.judge(pod, self.events, asyncio.get_running_loop().time())
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
            if self.trouble is not None and (failing := self.trouble.failing(pod)):
                self.waiting_for = failing.sentence(())
            return
        now = asyncio.get_running_loop().time()
        if self._unschedulable_since is None:
            self._unschedulable_since = now
        if now < self._next_diagnosis:
            return
        self._next_diagnosis = now + _DIAGNOSIS_SECONDS
        out_of_patience = self._unschedulable_since + self.patience_seconds
        if self.plan.fallback is not None and now < out_of_patience:
            self._next_diagnosis = min(self._next_diagnosis, out_of_patience)
        await self._explain(message, impatient=now >= out_of_patience)

    async def _explain(self, message: str, impatient: bool) -> None:
        taken = self.objects.taken
        standing = {name: each.object.name for name, each in self.objects.standing.items()} | taken
        try:
            pod = self.look() or {}
            diagnosis = await diagnose(self.objects.api, self.plan.specs, standing, self.objects.namespace, pod, taken)
        except Exception:
            # An explanation is a courtesy; the start goes on without.
            self.log.exception("Could not explain why %s waits", self.pod_name)
            diagnosis = Diagnosis()
        if self.plan.fallback is not None and (diagnosis.hopeless or (impatient and _for_devices(message, diagnosis))):
            raise DevicesGone("No device is free any more for this choice; this server starts without it.")
        if diagnosis.hopeless:
            raise SpawnRefused(diagnosis.sentence, RefusalReason.DEVICE_CLASS)
        if diagnosis.sentence and diagnosis.sentence != self.waiting_for:
            self.tell(diagnosis.sentence)
        self.waiting_for = diagnosis.sentence

    async def _hold_again(self) -> None:
        """Make a claim anew that somebody has removed since; the pod would wait for it for ever."""
        now = asyncio.get_running_loop().time()
        if not self.objects.standing or now < self._next_hold:
            return
        self._next_hold = now + _HOLD_SECONDS
        try:
            await self.objects.hold_standing(self.named)
        except StandingRefused as refusal:
            raise SpawnRefused(str(refusal), RefusalReason.CLUSTER, 503) from refusal
        except (KubernetesError, StandingGoing) as error:
            self.log.warning("Could not see to what is shared with other servers, trying again: %s", error)


def _deleted() -> SpawnRefused:
    return SpawnRefused("The server's pod was deleted while it started.", RefusalReason.POD, 503)


def _for_devices(message: str, diagnosis: Diagnosis) -> bool:
    """Whether a pod waits for devices rather than for something else."""
    return diagnosis.fits is False or _NO_DEVICE in message
