"""Where one start gets its place: asked of the service once, when the pod is complete, and kept to while it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from logging import Logger
from typing import Any

from kubernetes_asyncio.client import ApiClient

from dra_spawner import names
from dra_spawner.kube.api import KubernetesError
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.shape_definition import definition_of
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.spawner.clean_up import BackgroundRemoval
from dra_spawner.spawner.objects.start_objects import NotKept, StartObjects
from dra_spawner.spawner.placed_pod import OriginalPod, manifest_of, shape_of_pod
from dra_spawner.spawner.placement_answer import PlacementAnswer
from dra_spawner.spawner.placement_service import ServiceAddress, ask_for_place
from dra_spawner.spawner.spawn_refusal import RefusalReason, SpawnRefused

__all__ = ["StartPlace"]

_KEPT = {True: "Your device was kept warm", False: "A place was kept warm for you"}


@dataclass
class StartPlace:
    """Asks the service, and sends the pod where it says.

    Attributes
    ----------
    client
        Of the Kubernetes library: knows how a pod is sent.
    hands_over
        Whether warm claims can be used; they are of one namespace.
    tell
        Shows the user a sentence.
    asks_for_node
        Whether a node is to come for it, if none has room; not for devices that it can do without.
    pod_may_be_there
        Whether a pod was asked for and no answer came. A claim is only ever one pod's, so a second one does without.
    """

    address: ServiceAddress
    client: ApiClient
    pod_name: str
    hands_over: bool
    tell: Callable[[str], None]
    log: Logger
    asks_for_node: bool = True
    pod_may_be_there: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _asked: bool = False
    _original: OriginalPod | None = None
    _answer: PlacementAnswer | None = None

    async def settle(self, pod: Any, objects: StartObjects) -> None:
        """Send a pod that is about to be created to its place. Before each try: a promise may have ended.

        Raises
        ------
        SpawnRefused
            Where no node can ever have the pod.
        """
        if not self._asked:
            self._asked = True
            await self._ask(pod, objects)
            return
        answer = self._answer
        if answer is not None and answer.claims and (self.pod_may_be_there or not answer.holds(self.now())):
            self.log.info("What was kept is not used any more: pod=%s", self.pod_name)
            await self._do_without(pod, objects)

    async def _ask(self, pod: Any, objects: StartObjects) -> None:
        found = self._look_at(pod, objects)
        if found is None:
            return
        shape, original = found
        pod.metadata.labels = {**(pod.metadata.labels or {}), names.SHAPE: shape.id}
        question = {"shape": shape.id, "pod": self.pod_name, "namespace": objects.namespace}
        answer = await ask_for_place(self.address, question, lambda: definition_of(shape), original.entries, self.log)
        if answer is None:
            return
        if not answer.is_published and self.asks_for_node:
            # Of this the service makes a placeholder that waits beside the pod for a node.
            told = {names.DEFINITION: definition_of(shape)}
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **told}
        if answer.kind is PlacementKind.NEVER:
            why = f": {answer.reason}" if answer.reason else ""
            raise SpawnRefused(f"This server can never start here{why}.", RefusalReason.NO_NODE)
        if answer.claims and not (self.hands_over and await self._take(answer, shape, objects)):
            answer = _without_claims(answer)
        self._original, self._answer = original, answer
        original.place(pod, answer)
        self.log.info(
            "Place: pod=%s kind=%s node=%s claims=%s", self.pod_name, answer.kind, answer.node, dict(answer.claims)
        )
        if sentence := _sentence(answer):
            self.tell(sentence)

    def _look_at(self, pod: Any, objects: StartObjects) -> tuple[Shape, OriginalPod] | None:
        """What the pod needs of a node; None if placeholders cannot keep it, or it makes no sense."""
        specs = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects.templates.values()}
        try:
            manifest = manifest_of(pod, self.client)
            shape = shape_of_pod(manifest, specs)
        except Exception:
            self.log.exception("It cannot be told what %s needs of a node; it goes anywhere", self.pod_name)
            return None
        return (shape, OriginalPod.of(manifest)) if shape is not None else None

    async def _take(self, answer: PlacementAnswer, shape: Shape, objects: StartObjects) -> bool:
        """Make the warm claims the start's own; whether that worked."""
        if not answer.holds(self.now()):
            self.log.info("What was kept is not kept any more: pod=%s until=%s", self.pod_name, answer.until)
            return False
        kept_for = {names.RESERVED_FOR: self.pod_name, names.SHAPE: shape.id}
        try:
            await objects.take_over(answer.claims, kept_for)
        except (NotKept, KubernetesError) as error:
            self.log.warning("What was kept cannot be taken over: pod=%s %s", self.pod_name, error)
            await self._leave(objects)
            return False
        return True

    async def _do_without(self, pod: Any, objects: StartObjects) -> None:
        assert self._original is not None
        self._original.restore(pod)
        self._answer = None
        self.tell("What was kept for this server is not kept any more; it gets its own.")
        await self._leave(objects)

    async def _leave(self, objects: StartObjects) -> None:
        """Remove claims that nobody else may have any more, either."""
        left = objects.leave_taken()
        if left is not None:
            await BackgroundRemoval.begin(left, self.pod_name, self.log)


def _without_claims(answer: PlacementAnswer) -> PlacementAnswer:
    """What is left of an answer: the server may go there with claims of its own."""
    return replace(answer, kind=PlacementKind.FRESH, claims={}, until=None)


def _sentence(answer: PlacementAnswer) -> str:
    where = f" on node {answer.node}" if answer.node else ""
    match answer.kind:
        case PlacementKind.WARM:
            return f"{_KEPT[bool(answer.claims)]}{where}."
        case PlacementKind.PREEMPTED:
            return f"Room is being made for this server{where}."
        case PlacementKind.SCALE_UP:
            return f"Waiting for a node: {answer.reason or 'none has room'}."
    return ""
