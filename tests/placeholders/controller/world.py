"""A reconciler at work on a cluster under test, and users' pods as the spawner makes them.

In real time, on an API server and a scheduler of their own: decisions are carried out by the executor, and seen by watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.observed import ObservedObject
from dra_spawner.placeholders.controller.executor import ActionExecutor
from dra_spawner.placeholders.controller.reconciler import Reconciler
from dra_spawner.placeholders.controller.reservations import Reservations
from dra_spawner.placeholders.planner.hypothetical_pods import requiring_readiness
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape, shape_of
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import node_with
from tests.polling import eventually
from tests.presence import present

IMAGE = "example.com/notebook:1"
PAUSE = PlaceholderSettings().image
PRIORITY_CLASS = "dra-spawner-placeholder"

Json = dict[str, Any]


def claim_spec(device_class: str = "gpu.example.com", memory: str = "") -> Json:
    exactly: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    if memory:
        exactly["capacity"] = {"requests": {"memory": memory}}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def user_pod(
    name: str,
    entries: Mapping[str, Json],
    cpu: str = "1",
    ready: bool = True,
    gates: Sequence[str] = (),
    limits: Mapping[str, str] | None = None,
    image: str = IMAGE,
    volumes: Sequence[Json] = (),
) -> Json:
    """A user's pod; ``entries`` says for each claim of which template or claim it is."""
    resources: Json = {"requests": {"cpu": cpu}, "limits": dict(limits or {})}
    if entries:
        resources["claims"] = [{"name": entry} for entry in entries]
    container: Json = {"name": "notebook", "image": image, "resources": resources}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if volumes:
        # A kubelet leaves out what no container mounts.
        container["volumeMounts"] = [{"name": each["name"], "mountPath": f"/mnt/{each['name']}"} for each in volumes]
        spec["volumes"] = list(volumes)
    if entries:
        spec["resourceClaims"] = [{"name": entry, **source} for entry, source in entries.items()]
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    if ready:
        spec["affinity"] = requiring_readiness({})
    metadata = {"name": name, "labels": {names.COMPONENT: names.USER_SERVER}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def shape(claims: Mapping[str, Json], cpu: str = "1", **kind: Any) -> Shape:
    pod = user_pod("anybody", {entry: {} for entry in claims}, cpu, **kind)
    return shape_of(pod, claims, frozenset((names.IMAGES_READY,)))


class PlaceholderWorld:
    """See the module."""

    def __init__(
        self, cluster: ClusterUnderTest, watch: ClusterWatch, policy: Policy, api: KubernetesApi, image: str = PAUSE
    ) -> None:
        self.cluster = cluster
        self.watch = watch
        self.policy = policy
        self.api = api
        self.decisions = DecisionLog()
        settings = PlaceholderSettings(namespace=cluster.namespace, priority_class=PRIORITY_CLASS, image=image)
        executor = ActionExecutor(
            api,
            settings,
            may_act=lambda: None,
            new_name=lambda each: f"placeholder-{each.id[:6]}-{secrets.token_hex(3)}",
        )
        self.reconciler = Reconciler(
            watch, lambda: self.policy, executor, self.decisions, frozenset((cluster.namespace,))
        )
        self.reservations = Reservations(self.reconciler)
        self._numbers = itertools.count()

    async def until(self, condition: Callable[[], bool], seconds: float = 20, what: str = "") -> None:
        """Wait until the watch shows something."""
        await eventually(condition, what or str(condition), seconds, shows=lambda: self.decisions.newest(12))

    def warm(self, of: Shape) -> list[Any]:
        """Those that may be handed over: their claims are seen to be allocated, too, which comes by another watch."""
        claims = self.watch.snapshot.claims
        return [
            each
            for each in self.reconciler.view().warm(of.id)
            if all(key in claims and claims[key].claim.is_allocated for key in each.claims)
        ]

    async def user(self, name: str, claims: Mapping[str, Json] | None = None, **kind: Any) -> None:
        """A user's pod with claims of its own."""
        entries = {}
        for entry, spec in (claims or {}).items():
            template = f"{name}-{entry}"
            await self.cluster.publish(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaimTemplate",
                    "metadata": {"name": template},
                    "spec": {"spec": spec},
                }
            )
            entries[entry] = {"resourceClaimTemplateName": template}
        await self._create(name, entries, claims or {}, **kind)

    async def placed_user(self, name: str, of: Shape, claims: Mapping[str, Json], **kind: Any) -> Any:
        """A user's pod as the spawner makes it after it asked for a placement."""
        reservation = await self.reservations.place(of, self.cluster.namespace, name)
        if reservation.claims:
            await self.named_user(name, reservation.claims, claims, **kind)
        else:
            await self.user(name, claims, **kind)
        return reservation

    async def named_user(self, name: str, given: Mapping[str, str], claims: Mapping[str, Json], **kind: Any) -> None:
        """A user's pod that names claims which are there."""
        await self._create(
            name, {entry: {"resourceClaimName": claim} for entry, claim in given.items()}, claims, **kind
        )

    async def _create(self, name: str, entries: Mapping[str, Json], claims: Mapping[str, Json], **kind: Any) -> None:
        manifest = user_pod(name, entries, **kind)
        manifest["metadata"]["labels"][names.SHAPE] = shape_of(manifest, claims, frozenset((names.IMAGES_READY,))).id
        await self.cluster.publish(manifest)


@contextlib.asynccontextmanager
async def at_work(
    cluster: ClusterUnderTest,
    *pairs: tuple[Shape, ReplicaRange],
    kubeconfig: Path | None = None,
    image: str = PAUSE,
) -> AsyncIterator[PlaceholderWorld]:
    """A reconciler that keeps what is wanted of each shape, in placeholders of an image."""
    policy = Policy(
        shapes={each.id: each for each, _ in pairs}, replicas={each.id: replicas for each, replicas in pairs}
    )
    async with (
        await KubernetesApi.from_kubeconfig(kubeconfig or cluster.admin_kubeconfig) as api,
        ClusterWatch(api) as watch,
    ):
        world = PlaceholderWorld(cluster, watch, policy, api, image)
        task = asyncio.create_task(world.reconciler.run())
        try:
            yield world
            assert not task.done(), task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


WHOLE = {"gpu": claim_spec()}
SHARE = {"gpu": claim_spec("gpu-share.example.com", "10Gi")}


def node(name: str, *devices: dict[str, Any], images: tuple[str, ...] = (IMAGE,)) -> list[dict[str, Any]]:
    objects = node_with(name, *devices)
    objects[0]["status"]["images"] = [{"names": [image], "sizeBytes": 1} for image in images]
    return objects if devices else objects[:1]


def device_of(world: PlaceholderWorld, claim: str) -> Any:
    tracked = world.watch.snapshot.claims.get(ObjectKey(world.cluster.namespace, claim))
    return tracked.claim.status.devices if tracked is not None else None


def seen_claim(world: PlaceholderWorld, claim: str) -> ObservedObject:
    return present(world.watch.observed(Kind.RESOURCE_CLAIM, ObjectKey(world.cluster.namespace, claim)))


def node_of(world: PlaceholderWorld, pod: str) -> str:
    found = world.watch.snapshot.pods.get(ObjectKey(world.cluster.namespace, pod))
    return found.node_name if found is not None else ""
