"""A hub that starts and stops servers, with the spawner's own code for objects beside the pod; it may die midway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import aiohttp

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.spawner.objects.api_objects import TEMPLATE_LABELS
from dra_spawner.spawner.objects.leftovers import Sweep
from dra_spawner.spawner.objects.start_objects import NotReserved, StartObjects, new_nonce
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import user_pod
from tests.service.replica import Replica
from tests.service.virtual_replica import VirtualTime

#: How long a start may take.
START_TIME = timedelta(seconds=60)
SWEEP_EVERY = timedelta(minutes=3)
#: As in the spawner: a reservation that ends sooner is not used any more.
_TOO_LATE = timedelta(seconds=2)

Json = dict[str, Any]


class Death(StrEnum):
    """The step at which a start ends for good, if it does."""

    NEVER = "never"
    RESERVED = "once a placeholder is reserved"
    MADE = "once all objects but the pod are made"
    STARTED = "once the pod exists, which owns nothing yet"


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of a user.

    Attributes
    ----------
    claims
        Specs by entry of the pod.
    cpu
        How much the pod requests.
    """

    shape: Shape
    claims: Mapping[str, Json]
    cpu: str


@dataclass
class Start:
    """A start under way."""

    name: str
    choice: Choice
    death: Death
    answer: Json | None = None


class Hub:
    """See the module.

    Attributes
    ----------
    reserved
        The pod for which a warm claim is reserved, by the name of the claim.
    wrong
        Reservations that violate a rule.
    users
        Names of the pods that the hub made and did not delete.
    spoiled
        Claims that somebody has deleted.
    """

    def __init__(self, cluster: ClusterUnderTest, time: VirtualTime, api: KubernetesApi) -> None:
        self.reserved: dict[str, str] = {}
        self.wrong: list[str] = []
        self.users: list[str] = []
        self.spoiled: set[str] = set()
        self.handed_over = 0
        self._cluster = cluster
        self._time = time
        self._api = api
        self._swept = time.now()

    async def ask(self, start: Start, service: Replica) -> None:
        """Ask for a placement; without an answer the hub goes on as if there were no service."""
        question = {"shape": start.choice.shape.id, "pod": start.name, "namespace": self._cluster.namespace}
        try:
            status, answer = await service.ask(question)
        except aiohttp.ClientError:
            return
        if status != 200:
            return
        start.answer = answer
        for claim in answer["claims"].values():
            other = self.reserved.setdefault(claim, start.name)
            if other != start.name:
                self.wrong.append(f"{claim} was reserved for {other} and for {start.name}")

    async def finish(self, start: Start) -> None:
        """Make the objects that the pod needs, and the pod."""
        if start.death is Death.RESERVED:
            return
        objects, answer = self._objects(start), start.answer
        entries = await self._acquire(start, objects, answer) if answer is not None and answer["claims"] else None
        if entries is None:
            entries = {
                name: {"resourceClaimTemplateName": each["metadata"]["name"]}
                for name, each in objects.templates.items()
            }
            await objects.ensure({each["metadata"]["name"] for each in objects.templates.values()})
        if start.death is Death.MADE:
            return
        manifest = user_pod(start.name, entries, start.choice.cpu, ready=answer is not None)
        manifest["metadata"]["labels"][names.SHAPE] = start.choice.shape.id
        manifest["metadata"]["annotations"] = {names.START: objects.nonce}
        pod = await self._api.create(self._cluster.path("pods"), manifest)
        self.users.append(start.name)
        if start.death is Death.NEVER:
            await objects.give_to_pod(start.name, pod["metadata"]["uid"])

    async def stop(self, name: str) -> None:
        """End a server."""
        self.users.remove(name)
        await self._api.delete(self._cluster.path("pods", name), grace_period_seconds=0, missing_ok=True)

    async def sweep(self) -> None:
        """Remove leftovers of starts, now and then."""
        if self._time.now() - self._swept >= SWEEP_EVERY:
            self._swept = self._time.now()
            sweep = Sweep(self._api, self._cluster.namespace, START_TIME, self._time.now())
            await sweep.run()
            assert sweep.errors == []

    async def _acquire(self, start: Start, objects: StartObjects, answer: Json) -> dict[str, Json] | None:
        """Entries that name the reserved claims; None if a claim is not available any more."""
        if self._time.now() > datetime.fromisoformat(answer["until"]) - _TOO_LATE:
            return None
        try:
            await objects.acquire_warm_claims(
                answer["claims"], {names.RESERVED_FOR: start.name, names.SHAPE: start.choice.shape.id}
            )
        except NotReserved:
            if self.spoiled.isdisjoint(answer["claims"].values()):
                self.wrong.append(f"{start.name} came in time and did not get {answer['claims']}")
            left = objects.release_warm_claims()
            if left is not None:
                await left.remove(start.name)
            return None
        self.handed_over += 1
        return {entry: {"resourceClaimName": claim} for entry, claim in answer["claims"].items()}

    def _objects(self, start: Start) -> StartObjects:
        nonce = new_nonce()
        marks = {
            "labels": {names.COMPONENT: names.USER_SERVER, **TEMPLATE_LABELS},
            "annotations": {names.START: nonce},
        }
        templates = {
            entry: {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"{start.name}-{entry}-{nonce}", **marks},
                "spec": {"metadata": marks, "spec": spec},
            }
            for entry, spec in start.choice.claims.items()
        }
        ends = self._time.now() + START_TIME
        return StartObjects(self._api, self._cluster.namespace, nonce, ends, templates, now=self._time.now)
