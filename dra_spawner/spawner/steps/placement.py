"""Step: ask the service where a server is placed, once the pod is complete, and keep to the answer while it holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from dra_spawner import names
from dra_spawner.kube.api import KubernetesError
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.shape_definition import definition_of
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.spawner.clean_up import remove
from dra_spawner.spawner.objects.start_objects import NotReserved, StartObjects
from dra_spawner.spawner.placement.answer import PlacementAnswer
from dra_spawner.spawner.placement.pod import OriginalPod, manifest_of, shape_of_pod
from dra_spawner.spawner.placement.service import ServiceAddress, ask_for_placement, service_of_hub
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused
from dra_spawner.spawner.steps.attempt import Attempt, DevicesGone, Outcome, Step

__all__ = ["Placement"]

_RESERVED: Final = {True: "A device was reserved for you", False: "CPU and memory were reserved for you"}


class Placement(Step):
    """Asks the service where the pod is placed, and sends it there."""

    def __init__(self, attempt: Attempt, address: ServiceAddress) -> None:
        super().__init__(attempt)
        self._address = address
        self._pod_may_be_there = False
        self._asked = False
        self._original: OriginalPod | None = None
        self._answer: PlacementAnswer | None = None

    @classmethod
    def configured(cls, attempt: Attempt) -> Step | None:
        """Return the step if there is a service, and nothing else decides about the node."""
        address = service_of_hub(attempt.spawner.placement_service)
        return cls(attempt, address) if address is not None and not attempt.node_is_chosen else None

    async def prepare_request(self, pod: Any) -> bool:
        """Send the pod to its node. Repeated before each request: a reservation may have ended.

        Raises
        ------
        SpawnRefused
            Where no node can ever have the pod.
        DevicesGone
            If the server can do without the devices that keep it from every node.
        """
        objects = self.attempt.objects
        assert objects is not None
        if not self._asked:
            self._asked = True
            await self._ask(pod, objects)
            return True
        answer = self._answer
        if answer is not None and answer.claims and (self._pod_may_be_there or not answer.holds(_now())):
            self.log.info("The reservation is not used any more: pod=%s", self.spawner.pod_name)
            await self._do_without(pod, objects)
        return True

    def requested(self, outcome: Outcome) -> None:
        """Remember whether a pod may be there: a claim is only ever one pod's, so a second one does without."""
        if outcome is Outcome.UNKNOWN:
            self._pod_may_be_there = True

    async def _ask(self, pod: Any, objects: StartObjects) -> None:
        found = self._look_at(pod, objects)
        if found is None:
            return
        shape, original = found
        pod.metadata.labels = {**(pod.metadata.labels or {}), names.SHAPE: shape.id}
        question = {"shape": shape.id, "pod": self.spawner.pod_name, "namespace": objects.namespace}
        # Warm claims are of one namespace.
        hands_over = not self.spawner.enable_user_namespaces
        # No node is to come for devices that the server can do without.
        asks_for_node = self.attempt.plan.fallback is None
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
        if not answer.is_published and asks_for_node:
            # Of this the service makes a placeholder that waits beside the pod for a node.
            told = {names.DEFINITION: definition_of(shape)}
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **told}
        if answer.kind is PlacementKind.NEVER:
            raise self._never(answer.reason)
        if answer.claims and not (hands_over and await self._take(answer, shape, objects)):
            answer = _without_claims(answer)
        self._original, self._answer = original, answer
        original.place(pod, answer)
        self.log.info(
            "Place: pod=%s kind=%s node=%s claims=%s reason=%s",
            self.spawner.pod_name,
            answer.kind,
            answer.node,
            dict(answer.claims),
            answer.reason or "-",
        )
        if sentence := _sentence(answer):
            self.attempt.messages.notify(sentence)

    def _never(self, reason: str) -> Exception:
        sentence = f"This server can never start here{f': {reason}' if reason else ''}."
        if self.attempt.plan.fallback is not None:
            return DevicesGone(f"{sentence} It starts without the device that it can do without.")
        return SpawnRefused(sentence, RefusalReason.NO_NODE)

    def _look_at(self, pod: Any, objects: StartObjects) -> tuple[Shape, OriginalPod] | None:
        """What the pod needs of a node; None if placeholders cannot keep it, or it makes no sense."""
        specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects.templates.values()}
        try:
            manifest = manifest_of(pod, self.spawner.api.api_client)
            shape = shape_of_pod(manifest, specs)
        except Exception:  # a hook may have made any pod of it; the start goes on without the service
            self.log.exception(
                "The shape of %s cannot be determined, the service is not asked for its placement",
                self.spawner.pod_name,
            )
            return None
        return (shape, OriginalPod.of(manifest)) if shape is not None else None

    async def _take(self, answer: PlacementAnswer, shape: Shape, objects: StartObjects) -> bool:
        """Make the warm claims the start's own; whether that worked."""
        if not answer.holds(_now()):
            self.log.info("The reservation has ended: pod=%s until=%s", self.spawner.pod_name, answer.until)
            return False
        reserved_by = {names.RESERVED_FOR: self.spawner.pod_name, names.SHAPE: shape.id}
        try:
            await objects.take_warm_claims(answer.claims, reserved_by)
            # In Kubernetes' events users would read the name of a placeholder.
            self.attempt.messages.rename(answer.claims.values(), self.spawner.pod_name)
        except (NotReserved, KubernetesError) as error:
            self.log.warning("The warm claims cannot be handed over: pod=%s %s", self.spawner.pod_name, error)
            await self._leave(objects)
            return False
        return True

    async def _do_without(self, pod: Any, objects: StartObjects) -> None:
        assert self._original is not None
        self._original.restore(pod)
        self._answer = None
        self.attempt.messages.notify("The reservation for this server has ended; it gets a device of its own.")
        await self._leave(objects)

    async def _leave(self, objects: StartObjects) -> None:
        """Remove claims that no other server may take over any more."""
        left = objects.drop_warm_claims()
        if left is not None:
            await remove(left, self.spawner.pod_name, self.log)


def _now() -> datetime:
    return datetime.now(UTC)


def _without_claims(answer: PlacementAnswer) -> PlacementAnswer:
    """What is left of an answer: the server may go there with claims of its own."""
    return replace(answer, kind=PlacementKind.FRESH, claims={}, until=None)


def _sentence(answer: PlacementAnswer) -> str:
    where = f" on node {answer.node}" if answer.node else ""
    match answer.kind:
        case PlacementKind.WARM:
            return f"{_RESERVED[bool(answer.claims)]}{where}."
        case PlacementKind.PREEMPTED:
            return f"Devices are being freed for this server{where}."
        case PlacementKind.SCALE_UP:
            # Not that a node comes: nobody may be there to add one.
            return "No node has room for this server now. It starts as soon as one has."
    return ""
