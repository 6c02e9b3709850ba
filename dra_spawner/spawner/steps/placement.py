"""Step: ask the service for the placement of the complete pod, and use the answer while its reservation lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.preparation import PreparedFor, prepared_for
from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.shapes import Shape, definition_of
from dra_spawner.spawner.clean_up import remove
from dra_spawner.spawner.objects.start_objects import NotReserved, StartObjects
from dra_spawner.spawner.placement.answer import PlacementAnswer
from dra_spawner.spawner.placement.pod import OriginalPod, manifest_of, shape_of_pod
from dra_spawner.spawner.placement.service import ask_for_placement, service_of_hub, told_of_user
from dra_spawner.spawner.placement.service_address import ServiceAddress
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, CreationOutcome, OptionalDevicesUnavailable, Step

_RESERVED: Final = {True: "A device was reserved for you", False: "CPU and memory were reserved for you"}
_PLACE_UNKNOWN: Final = "Your place in the queue is not known now. Please try again in a minute."


class ServicePlacement(Step):
    """Asks the service for the pod's placement, and changes the pod accordingly."""

    def __init__(self, attempt: Attempt, address: ServiceAddress) -> None:
        super().__init__(attempt)
        self._address = address
        self._pod_may_exist = False
        self._asked = False
        self._original: OriginalPod | None = None
        self._answer: PlacementAnswer | None = None

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if there is a service, and no other step chooses the node."""
        spawner = attempt.spawner
        address = service_of_hub(spawner.placeholder_service, spawner.placeholder_service_ca_file)
        return cls(attempt, address) if address is not None and not attempt.node_is_chosen else None

    async def prepare_request(self, pod: Any) -> bool:
        """Apply the placement to the pod. Repeated before each request, as a reservation may have ended.

        Raises
        ------
        SpawnRefused
            If the pod can never run on any node.
        OptionalDevicesUnavailable
            If the pod can never run with its optional devices.
        """
        objects = self.attempt.objects
        assert objects is not None
        if not self._asked:
            self._asked = True
            await self._ask(pod, objects)
            return True
        answer = self._answer
        if answer is not None and answer.claims and (self._pod_may_exist or not answer.holds(_now())):
            self.log.info("The reservation is not used any more: pod=%s", self.spawner.pod_name)
            await self._restore(pod, objects)
        return True

    def requested(self, outcome: CreationOutcome) -> None:
        """Record whether a pod may exist: a warm claim is for one pod only, so a second pod must not name it."""
        if outcome is CreationOutcome.UNKNOWN:
            self._pod_may_exist = True

    async def _ask(self, pod: Any, objects: StartObjects) -> None:
        found = self._shape_of(pod, objects)
        if found is None:
            return
        shape, original = found
        pod.metadata.labels = {**(pod.metadata.labels or {}), names.SHAPE: shape.id}
        question: JsonObject = {
            "shape": shape.id,
            "pod": self.spawner.pod_name,
            "namespace": objects.namespace,
            **told_of_user(self.spawner.user.name, self.server.user_groups),
        }
        tickets = await self._tickets()
        if tickets:
            question["tickets"] = tickets
        # Placeholders and their warm claims are in one namespace.
        supports_handover = not self.spawner.enable_user_namespaces
        # The service must not order a node for optional devices.
        may_need_node = self.attempt.plan.fallback is None
        answer = await ask_for_placement(
            self._address,
            question,
            lambda: definition_of(shape),
            original.entries,
            self.spawner.placement_wait_seconds,
            self.log,
        )
        if answer is None:
            return
        if not answer.is_published and may_need_node:
            # From the definition the service creates a pending placeholder, for which an autoscaler adds a node.
            definition = {names.DEFINITION: definition_of(shape)}
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **definition}
        if answer.is_behind:
            pod.metadata.labels = {**pod.metadata.labels, names.BEHIND: names.TRUE}
        if answer.state is AvailabilityState.NEVER:
            raise self._never(answer)
        if answer.before and self.spawner.tickets and self.attempt.plan.fallback is None:
            # A device may be held for the user.
            sentence = answer.sentence if tickets is not None else _PLACE_UNKNOWN
            sentence = sentence or "Others wait for such a device, and come first."
            raise SpawnRefused(sentence, RefusalReason.QUEUE, status_code=503)
        if answer.claims and not (supports_handover and await self._take(answer, shape, objects)):
            answer = _without_claims(answer)
        self._original, self._answer = original, answer
        original.place(pod, answer)
        if answer.preferences and not answer.claims and not _is_queued(pod):
            objects.prefer(answer.preferences)
        self.log.info(
            "Placement: pod=%s state=%s node=%s claims=%s reason=%s",
            self.spawner.pod_name,
            answer.state,
            answer.node,
            dict(answer.claims),
            answer.reason or "-",
        )
        if sentence := _sentence(answer):
            self.attempt.messages.notify(sentence)

    async def _tickets(self) -> list[str] | None:
        """Ids of the user's open tickets; None where they are not known, so that the start goes on without them."""
        if not self.spawner.tickets:
            return []
        # Most hubs have no queue.
        from dra_spawner.spawner.ticket_access import tickets_of
        from dra_spawner.ticket_store.ticket_store import TicketsUnavailable

        tickets = tickets_of(self.server)
        assert tickets is not None  # as the setting is on

        try:
            async with asyncio.timeout(self.spawner.placement_wait_seconds):
                return list(await tickets.take(str(self.spawner.user.name)))
        except (TicketsUnavailable, TimeoutError):
            self.log.warning("The tickets of a user are not known: pod=%s", self.spawner.pod_name)
            return None

    def _never(self, answer: PlacementAnswer) -> Exception:
        self.log.error("A server can never start: pod=%s because=%s", self.spawner.pod_name, answer.reason or "-")
        sentence = answer.sentence or "It can never start."
        if self.attempt.plan.fallback is not None:
            return OptionalDevicesUnavailable(f"{sentence} It starts without its optional device.")
        return SpawnRefused(sentence, RefusalReason.NO_NODE)

    def _shape_of(self, pod: Any, objects: StartObjects) -> tuple[Shape, OriginalPod] | None:
        """The pod's shape and original parts; None if placeholders cannot have this shape, or the pod is invalid."""
        specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects.templates.values()}
        try:
            manifest = manifest_of(pod, self.spawner.api.api_client)
            shape = shape_of_pod(manifest, specs)
        except Exception:  # a hook may have changed the pod in any way; the start continues without the service
            self.log.exception(
                "The shape of %s cannot be determined, the service is not asked for its placement",
                self.spawner.pod_name,
            )
            return None
        return (shape, OriginalPod.of(manifest)) if shape is not None else None

    async def _take(self, answer: PlacementAnswer, shape: Shape, objects: StartObjects) -> bool:
        """Acquire the warm claims for the start; return whether that succeeded."""
        if not answer.holds(_now()):
            self.log.info("The reservation has ended: pod=%s until=%s", self.spawner.pod_name, answer.until)
            return False
        reserved_by = {names.RESERVED_FOR: self.spawner.pod_name, names.SHAPE: shape.id}
        try:
            claims = await objects.acquire_warm_claims(answer.claims, reserved_by)
            # In Kubernetes' events users would read the name of a placeholder.
            self.attempt.messages.rename(answer.claims.values(), self.spawner.pod_name)
        except (NotReserved, KubernetesError) as error:
            self.log.warning("The warm claims cannot be handed over: pod=%s %s", self.spawner.pod_name, error)
            await self._remove_warm_claims(objects)
            return False
        if answer.state is AvailabilityState.READY and (drivers := self._drivers_for_one_pod(claims)):
            self.log.warning(
                "The warm claims are not handed over: pod=%s The placeholder alone can use devices of %s",
                self.spawner.pod_name,
                ", ".join(drivers),
            )
            await self._remove_warm_claims(objects)
            return False
        return True

    def _drivers_for_one_pod(self, claims: Iterable[JsonObject]) -> list[str]:
        """The drivers whose devices no server gets while the placeholder runs; an older service may not know it."""
        # Imported here, as only warm claims are asked of drivers.
        from dra_spawner.profiles.drivers import drivers_prepare_for

        known = drivers_prepare_for(self.spawner.drivers_prepare_for)
        found = set()
        for claim in claims:
            status = claim.get("status") or {}
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
            with_interface = {each["driver"] for each in status.get("devices") or () if each.get("networkData")}
            drivers = {each["driver"] for each in results}
            found |= with_interface | {each for each in drivers if prepared_for((each,), known) is PreparedFor.POD}
        return sorted(found)

    async def _restore(self, pod: Any, objects: StartObjects) -> None:
        assert self._original is not None
        self._original.restore(pod)
        self._answer = None
        self.attempt.messages.notify("The reservation for this server has ended; it gets a device of its own.")
        await self._remove_warm_claims(objects)

    async def _remove_warm_claims(self, objects: StartObjects) -> None:
        """Remove the acquired warm claims, as no other server may use them any more."""
        left = objects.release_warm_claims()
        if left is not None:
            await remove(left, self.spawner.pod_name, self.log)


def _is_queued(pod: Any) -> bool:
    """Whether a queue, such as Kueue's, admits the pod: it may not understand lists of alternatives."""
    return bool(pod.spec.scheduling_gates) or names.KUEUE_QUEUE in (pod.metadata.labels or {})


def _now() -> datetime:
    return datetime.now(UTC)


def _without_claims(answer: PlacementAnswer) -> PlacementAnswer:
    """The answer without its warm claims: its node stays preferred, with new claims."""
    return replace(answer, state=AvailabilityState.FREE, claims={}, until=None, after="")


def _sentence(answer: PlacementAnswer) -> str:
    if answer.is_behind and answer.note:
        return answer.note
    where = f" on machine {answer.node}" if answer.node else ""
    match answer.state:
        case AvailabilityState.READY | AvailabilityState.AFTER_PLACEHOLDER:
            return f"{_RESERVED[bool(answer.claims)]}{where}."
        case AvailabilityState.AFTER_PREEMPTION | AvailabilityState.WAITS:
            return answer.sentence
    return ""
