"""A cluster at rest in virtual time: servers and warm placeholders, each with a GPU, and a controller that leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from dra_spawner import names
from dra_spawner.devcluster.api.resource_types import by_kind
from dra_spawner.devcluster.api.storage.store import Store
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderController
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.controller.sources.settings import ControllerSettings
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.published_shapes import PublishedShapes, published_config_map
from dra_spawner.service.tickets.ticket_service import TicketService
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.integration.devices import DRIVER, PRIORITY_CLASS, classes, node_with, priority_class, whole
from tests.kube.failing_api import FailingApi
from tests.placeholders.controller.objects import IMAGE, WHOLE, Json, shape, user_pod
from tests.running import ended
from tests.simulator.dump import dump
from tests.virtual_loop import VirtualLoop

NAMESPACE: Final = "hub"
GPU: Final = shape(WHOLE)
SERVERS: Final = 20
PLACEHOLDERS: Final = 10
_GPUS_OF_NODE: Final = 6
_BEGIN: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
PLACEHOLDER_SETTINGS: Final = PlaceholderSettings(namespace=NAMESPACE, priority_class=PRIORITY_CLASS)


class RestingCluster:
    """See the module.

    Attributes
    ----------
    store, api
        The objects, and the way to them.
    controller, watch, queue
        Of the process that leads; without a queue if the settings have none.
    """

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        self._settings = settings or ControllerSettings(
            NAMESPACE, {"gpu": ReplicaRange(PLACEHOLDERS, 2 * PLACEHOLDERS)}, placeholders=PLACEHOLDER_SETTINGS
        )
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self.store = Store(self.now, random=Random(1))
        self.api = FailingApi(self.store)
        self.controller: PlaceholderController
        self.watch: ClusterWatch
        self.queue: TicketService
        self._make_objects()

    def now(self) -> datetime:
        return _BEGIN + timedelta(seconds=self._loop.time())

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """A process that has read the cluster, or tries to, and leads."""
        self.watch = ClusterWatch(self.api, clock=self._loop.time, random=Random(2))
        times = ReconcilerTimes(idle=15.0)
        self.controller = PlaceholderController(
            self.api, self.watch, DecisionLog(), self._settings, now=self.now, times=times
        )
        self.queue = TicketService(self.api, self.controller, lambda user, groups: False)
        async with self.watch, self.queue, self.controller:
            task = asyncio.create_task(self.controller.lead(lambda: None))
            try:
                yield
                assert not task.done(), task
            finally:
                await ended(task)

    @property
    def on_hold(self) -> str:
        latest = self.controller.latest
        return latest.on_hold if latest is not None else "no round yet"

    def seen(self) -> Any:
        """All that the controller knows of the cluster."""
        return dump(self.watch.snapshot), self.controller.policy, self.controller.quotas

    def remove(self, kind: Kind, name: str) -> None:
        """Delete an object of the namespace, as its owner's end does."""
        api_version = "v1" if kind is Kind.POD else names.RESOURCE_API
        found = by_kind(api_version, kind)
        assert found is not None
        self.store.delete(found, NAMESPACE, name, grace_period_seconds=0)

    def _make_objects(self) -> None:
        for obj in (
            *classes(),
            priority_class(),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        ):
            self._create(obj)
        published = PublishedShapes({"gpu": GPU})
        self._create(published_config_map(published, NAMESPACE, {names.MANAGED_BY: names.MANAGER}))
        count = SERVERS + PLACEHOLDERS
        for number in range(count // 5):
            devices = [whole(f"gpu-{each}") for each in range(_GPUS_OF_NODE)]
            node, *slices = node_with(f"node-{number}", *devices, images=[IMAGE])
            node["metadata"].setdefault("labels", {})[names.IMAGES_READY] = names.TRUE
            for obj in (node, *slices):
                self._create(obj)
        for number in range(count):
            place = f"node-{number // 5}", f"gpu-{number % 5}"
            self._server(number, *place) if number < SERVERS else self._placeholder(number, *place)

    def _server(self, number: int, node: str, device: str) -> None:
        claim: Json = {
            "apiVersion": names.RESOURCE_API,
            "kind": "ResourceClaim",
            "metadata": {"name": f"jupyter-{number}-gpu", "namespace": NAMESPACE},
            "spec": WHOLE["gpu"],
        }
        pod = user_pod(f"jupyter-{number}", {"gpu": {"resourceClaimName": claim["metadata"]["name"]}})
        pod["metadata"]["labels"][names.SHAPE] = GPU.id
        self._run(pod, claim, node, device)

    def _placeholder(self, number: int, node: str, device: str) -> None:
        (claim,) = placeholder_claims(GPU, f"placeholder-{number}", PLACEHOLDER_SETTINGS)
        self._run(placeholder_pod(GPU, f"placeholder-{number}", PLACEHOLDER_SETTINGS), claim, node, device)

    def _run(self, pod: Json, claim: Json, node: str, device: str) -> None:
        """A pod that runs with its device."""
        pod["metadata"]["namespace"] = NAMESPACE
        pod["spec"]["nodeName"] = node
        running = {"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}
        started = self.now().isoformat().replace("+00:00", "Z")
        made = self._create({**pod, "status": {"phase": "Running", "startTime": started, "conditions": list(running)}})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
        selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        status = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [selector]}},
            "reservedFor": [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}],
        }
        metadata = {**claim["metadata"], "ownerReferences": [owner]}
        self._create({**claim, "metadata": metadata, "status": status})

    def _create(self, obj: Json) -> Json:
        """Create an object, and write its status."""
        kind = by_kind(obj["apiVersion"], obj["kind"])
        assert kind is not None
        metadata = obj["metadata"]
        made = self.store.create(kind, obj, metadata.get("namespace"))
        if status := obj.get("status"):
            made = self.store.modify(
                kind, metadata.get("namespace"), metadata["name"], lambda each: each.update(status=status), "status"
            )
        return made

    def warm(self) -> set[ObjectKey]:
        return {each.key for each in self.controller.view().warm(GPU.id)}
