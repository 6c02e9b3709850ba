"""The two systems that provide placeholders, on a real control plane.

Ours are the service's own parts in the test's process; the recipe is the content of zero-to-jupyterhub's chart, for
Kubernetes' own controllers and schedulers.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from pathlib import Path

from dra_spawner import names
from dra_spawner.history.decision_log import DecisionLog
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.targets.hypothetical_pods import simulated_placeholder
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.simulator.model.claims import TrackedClaim
from dra_spawner.simulator.model.pods import Pod
from tests.integration.devices import priority_class
from tests.placeholders.controller.world import reconciler
from tests.placeholders.planner.day import PLACEHOLDERS
from tests.placeholders.planner.objects import Json, preferring, user_manifest, user_shape
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock
from tests.virtual_time.cluster_world import DRA, ClusterWorld
from tests.virtual_time.quiet import Rounds

PRIORITY_CLASS = "placeholders"
USER_SCHEDULER = "user-scheduler"

SCHEDULER_PROFILES: tuple[Json, ...] = (
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": USER_SCHEDULER,
        "plugins": {
            "score": {
                "disabled": [
                    {"name": name}
                    for name in (
                        "NodeResourcesBalancedAllocation",
                        "NodeAffinity",
                        "InterPodAffinity",
                        "NodeResourcesFit",
                        "ImageLocality",
                    )
                ],
                "enabled": [
                    {"name": "NodeAffinity", "weight": 14631},
                    {"name": "InterPodAffinity", "weight": 1331},
                    {"name": "NodeResourcesFit", "weight": 121},
                    {"name": "ImageLocality", "weight": 11},
                ],
            }
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                    }
                },
            }
        ],
    },
)
"""The default scheduler, and zero-to-jupyterhub's second one, which fills the fullest node, counting all pods."""


class Ours(ClusterWorld):
    """Placeholders by the service's own reconciler, placements by its reservations."""

    def __init__(
        self,
        api: KubernetesApi,
        watch: ClusterWatch,
        clock: JumpingClock,
        namespace: str,
        claims: Mapping[str, Json],
    ) -> None:
        super().__init__(api, watch, clock, namespace, claims)
        self.shape = user_shape(claims)
        replicas = ReplicaRange(PLACEHOLDERS, 4 * PLACEHOLDERS)
        self.policy = Policy(
            shapes={self.shape.id: self.shape},
            replicas={self.shape.id: replicas},
            drivers_prepare_for=drivers_prepare_for(),
        )
        self.decisions = DecisionLog(limit=100_000)
        settings = PlaceholderSettings(namespace=namespace, priority_class=PRIORITY_CLASS)
        self.reconciler = reconciler(api, watch, settings, lambda: self.policy, self.decisions, now=clock.now)
        self.reservations = Reservations(self.reconciler)
        self.rounds = Rounds(self.reconciler)
        self.quiet.is_busy = self.rounds.has_work

    @property
    def evictions(self) -> int:
        codes = {cause.value for cause in Cause if cause.is_eviction}
        made = self.decisions.newest(self.decisions.count, matches=lambda each: each.kind == "delete-placeholder")
        return sum(each.decision.code in codes for each in made)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        return simulated_placeholder(self.shape, self.namespace, f"{placeholder.name}-again")

    async def arrive(self, name: str) -> None:
        """Act as the spawner: ask for a placement, then create the pod by the answer."""
        reservation = await self.reservations.place(self.shape, self.namespace, name)
        spec: Json = {}
        if reservation.placement.node:
            spec["affinity"] = preferring(reservation.placement.node)
        await self.user(name, reservation.claims, **spec)

    def label_user(self, manifest: Json) -> None:
        manifest["metadata"]["labels"][names.SHAPE] = self.shape.id

    async def settle(self) -> None:
        await self.rounds.another()

    async def work(self) -> None:
        await self.reconciler.run()


class Recipe(ClusterWorld):
    """Placeholders as in zero-to-jupyterhub's chart: one StatefulSet, whose pods its scheduler preempts for users."""

    async def install(self) -> None:
        for entry in self.claims:
            await self.create(DRA, "resourceclaimtemplates", self.template(self._template_name(entry), entry))
        stateful_set = {
            "kind": "StatefulSet",
            "metadata": {"name": names.PLACEHOLDER},
            "spec": {
                "replicas": PLACEHOLDERS,
                "podManagementPolicy": "Parallel",
                "serviceName": names.PLACEHOLDER,
                "selector": {"matchLabels": {names.COMPONENT: names.PLACEHOLDER}},
                "template": self._placeholder(),
            },
        }
        await self.create("apps/v1", "statefulsets", stateful_set)

    def replacement_of(self, placeholder: Pod) -> tuple[Pod, tuple[TrackedClaim, ...]]:
        manifest = self._placeholder()
        name = f"{placeholder.name}-again"
        manifest["metadata"] |= {"name": name, "namespace": self.namespace, "uid": name}
        manifest["spec"]["priority"] = placeholder.priority
        return Pod.from_json(manifest), ()

    async def arrive(self, name: str) -> None:
        await self.user(name, {}, requires_ready=False, schedulerName=USER_SCHEDULER)

    def _placeholder(self) -> Json:
        manifest = user_manifest("", self.claims, requires_ready=False, terminationGracePeriodSeconds=0)
        manifest["spec"]["containers"][0]["image"] = PlaceholderSettings().image
        entries = [{"name": entry, "resourceClaimTemplateName": self._template_name(entry)} for entry in self.claims]
        return {
            "metadata": {"labels": {names.COMPONENT: names.PLACEHOLDER}},
            "spec": {
                **manifest["spec"],
                **({"resourceClaims": entries} if entries else {}),
                "schedulerName": USER_SCHEDULER,
                "priorityClassName": PRIORITY_CLASS,
            },
        }

    @staticmethod
    def _template_name(entry: str) -> str:
        return f"{names.PLACEHOLDER}-{entry}"


class System(StrEnum):
    """The system that provides the placeholders."""

    OURS = "ours"
    RECIPE = "recipe"


_KINDS: Mapping[System, type[ClusterWorld]] = {System.OURS: Ours, System.RECIPE: Recipe}


@contextlib.asynccontextmanager
async def at_work(
    system: System, kubeconfig: Path, namespace: str, clock: JumpingClock, claims: Mapping[str, Json]
) -> AsyncIterator[ClusterWorld]:
    """One of the systems at work on a cluster that has no nodes yet.

    Parameters
    ----------
    kubeconfig
        The kubeconfig of an administrator.
    claims
        The claims of each user's pod, by entry.
    """
    async with await VirtualTimeApi.connect(kubeconfig, Stamps(clock)) as api, ClusterWatch(api) as watch:
        await _prepare(api)
        await watch.wait_synced()
        world = _KINDS[system](api, watch, clock, namespace, claims)
        await world.install()
        # A failure of any of these ends the test, too.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in (world.run_nodes(), world.work())]
            yield world
            for task in tasks:
                task.cancel()


async def _prepare(api: KubernetesApi) -> None:
    """Create the objects that exist before any node."""
    for group, plural, obj in (
        (DRA, "deviceclasses", {"metadata": {"name": "gpu.example.com"}, "spec": {}}),
        ("scheduling.k8s.io/v1", "priorityclasses", priority_class(PRIORITY_CLASS)),
    ):
        await api.create(resource_path(group, plural), {"apiVersion": group, **obj})
