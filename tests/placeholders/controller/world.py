"""A reconciler at work on a cluster under test, and users' pods as the spawner makes them.

In real time, with a real API server and scheduler: the executor carries out decisions, and watches show the results.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
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
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape, shape_of
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import Json, user_pod
from tests.polling import PATIENCE_SECONDS, eventually
from tests.presence import present
from tests.running import running

PAUSE = PlaceholderSettings().image


def reconciler(
    api: KubernetesApi,
    watch: ClusterWatch,
    settings: PlaceholderSettings,
    policy: Callable[[], Policy],
    decisions: DecisionLog,
    **more: Any,
) -> Reconciler:
    """A reconciler of one namespace that may always act."""
    executor = ActionExecutor(
        api,
        settings,
        may_act=lambda: None,
        new_name=lambda each: f"placeholder-{each.id[:6]}-{secrets.token_hex(3)}",
    )
    return Reconciler(watch, policy, executor, decisions, frozenset((settings.namespace,)), **more)


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
        self.reconciler = reconciler(api, watch, settings, lambda: self.policy, self.decisions)
        self.reservations = Reservations(self.reconciler)
        self._numbers = itertools.count()

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS, what: str = "") -> None:
        """Wait until the watch shows something."""
        await eventually(condition, what or str(condition), seconds, shows=lambda: self.decisions.newest(12))

    def warm(self, of: Shape) -> list[Any]:
        """Placeholders that are ready for a handover: another watch also shows that their claims are allocated."""
        claims = self.watch.snapshot.claims
        return [
            each
            for each in self.reconciler.view().warm(of.id)
            if all(key in claims and claims[key].claim.is_allocated for key in each.claims)
        ]

    async def user(self, name: str, claims: Mapping[str, Json] | None = None, **kind: Any) -> None:
        """Create a user's pod with its own claims."""
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
        """Create a user's pod as the spawner does after it asked for a placement."""
        reservation = await self.reservations.place(of, self.cluster.namespace, name)
        if reservation.claims:
            await self.named_user(name, reservation.claims, claims, **kind)
        else:
            await self.user(name, claims, **kind)
        return reservation

    async def named_user(self, name: str, given: Mapping[str, str], claims: Mapping[str, Json], **kind: Any) -> None:
        """Create a user's pod that names existing claims."""
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
    """A reconciler that holds the target of each shape, with placeholders of an image."""
    policy = Policy(
        shapes={each.id: each for each, _ in pairs}, replicas={each.id: replicas for each, replicas in pairs}
    )
    async with (
        await KubernetesApi.from_kubeconfig(kubeconfig or cluster.admin_kubeconfig) as api,
        ClusterWatch(api) as watch,
    ):
        world = PlaceholderWorld(cluster, watch, policy, api, image)
        async with running(world.reconciler.run()):
            yield world


def device_of(world: PlaceholderWorld, claim: str) -> Any:
    tracked = world.watch.snapshot.claims.get(ObjectKey(world.cluster.namespace, claim))
    return tracked.claim.status.devices if tracked is not None else None


def seen_claim(world: PlaceholderWorld, claim: str) -> ObservedObject:
    return present(world.watch.observed(Kind.RESOURCE_CLAIM, ObjectKey(world.cluster.namespace, claim)))


def node_of(world: PlaceholderWorld, pod: str) -> str:
    found = world.watch.snapshot.pods.get(ObjectKey(world.cluster.namespace, pod))
    return found.node_name if found is not None else ""
