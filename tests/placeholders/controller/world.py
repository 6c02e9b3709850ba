"""A reconciler at work on a cluster under test, and users' pods as the spawner makes them.

The executor carries out decisions on a real API server with a scheduler, and watches show the results. The reconciler's clock goes
with real time until the test sets it forward. `tests.placeholders.planner.world` says which worlds there are, and why.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dra_spawner import names
from dra_spawner.history.decision_log import Decision, DecisionLog
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.observed import ObservedObject
from dra_spawner.placeholders.controller.round.executor import ActionExecutor
from dra_spawner.placeholders.controller.round.reconciler import Reconciler, ReconcilerTimes
from dra_spawner.placeholders.controller.round.reservations import Reservations
from dra_spawner.placeholders.planner.targets.placeholder_objects import PlaceholderSettings
from dra_spawner.placeholders.planner.targets.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape, shape_of
from dra_spawner.profiles.drivers import drivers_prepare_for
from dra_spawner.service.http.api.placement_handler import reservation_json
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS
from tests.placeholders.controller.objects import IMAGE, Json, node, user_pod
from tests.placeholders.controller.seen_servers import has_devices
from tests.polling import PATIENCE_SECONDS, eventually
from tests.presence import present
from tests.running import running
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock

PAUSE = PlaceholderSettings().image
#: Reservations and graces end soon after their time, so no test waits for the next round.
TIMES = ReconcilerTimes(idle=0.1)
#: After this number of rounds without a decision, the world is at rest.
_ROUNDS = 4


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
        self,
        cluster: ClusterUnderTest,
        watch: ClusterWatch,
        policy: Policy,
        api: VirtualTimeApi,
        clock: JumpingClock,
        image: str = PAUSE,
    ) -> None:
        self.cluster = cluster
        self.watch = watch
        self.policy = policy
        self.api = api
        self.clock = clock
        self.decisions = DecisionLog()
        settings = PlaceholderSettings(namespace=cluster.namespace, priority_class=PRIORITY_CLASS, image=image)
        self.reconciler = reconciler(
            api, watch, settings, lambda: self.policy, self.decisions, now=self.clock.now, times=TIMES
        )
        self.reservations = Reservations(self.reconciler)
        self._numbers = itertools.count()

    @property
    def policy(self) -> Policy:
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """As in a service, it is known what drivers prepare claims for."""
        known = policy.drivers_prepare_for or drivers_prepare_for()
        self._policy = replace(policy, drivers_prepare_for=known)

    # --- what happens -------------------------------------------------------------------------------------------------

    async def node(self, name: str, *devices: Json, cpu: str = "10", taints: Sequence[Json] = (), **more: Any) -> None:
        """Create a node, a minute after the previous change."""
        self.clock.jump_to(self.clock.now() + timedelta(minutes=1))
        objects = node(name, *devices, **more)
        objects[0]["status"]["capacity"]["cpu"] = cpu
        if taints:
            objects[0]["spec"]["taints"] = list(taints)
        await self.cluster.publish(*objects)
        # The stamp is translated when the node is first seen. That must be before the clock jumps again.
        await self.until(lambda: name in self.watch.snapshot.nodes, what=f"node {name}")

    async def pull(self, node: str) -> None:
        await self.cluster.pull_image(node, IMAGE)

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
            after = reservation_json(reservation)["after"]
            await self.named_user(name, reservation.claims, claims, after=after, **kind)
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

    async def pod(self, name: str, cpu: str = "1", component: str = names.USER_SERVER, **spec: Any) -> None:
        """Create a pod that any node may get, and wait until it has one."""
        manifest = user_pod(name, {}, cpu, ready=False)
        manifest["metadata"]["labels"][names.COMPONENT] = component
        manifest["spec"] |= spec
        await self.cluster.publish(manifest)
        await self.until_placed(name)

    async def until_placed(self, name: str) -> None:
        """Wait until the watch shows a pod with its node and its devices."""
        key = self.key(name)
        await self.until(lambda: has_devices(self.watch.snapshot, key), what=f"{name} has a node and its devices")

    async def leave(self, name: str) -> None:
        await self.cluster.admin.delete(self.cluster.path("pods", name), grace_period_seconds=0)
        await self.until(lambda: self.key(name) not in self.watch.snapshot.pods, what=f"{name} has left")

    async def pass_time(self, **time: float) -> None:
        """Let time pass, and let the reconciler decide."""
        self.clock.jump_to(self.clock.now() + timedelta(**time))
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing has been decided for a few rounds."""
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while asyncio.get_running_loop().time() < end:
            before = self.decisions.count
            for _ in range(_ROUNDS):
                await self.another_round()
            if self.decisions.count == before and not self.pending:
                return
        raise AssertionError(f"did not come to rest: {self.decisions.newest(10)}")

    async def another_round(self) -> None:
        latest = self.reconciler.latest
        self.reconciler.wake()
        await self.until(lambda: self.reconciler.latest is not latest, what="it was decided again")

    def set_replicas(self, of: Shape, minimum: int, maximum: int, floor: int | None = None) -> None:
        replicas = {**self.policy.replicas, of.id: ReplicaRange(minimum, maximum, floor)}
        self.policy = replace(self.policy, shapes={**self.policy.shapes, of.id: of}, replicas=replicas)
        self.reconciler.wake()

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS, what: str = "") -> None:
        """Wait until the watch shows something."""
        await eventually(condition, what or str(condition), seconds, shows=lambda: self.decisions.newest(12))

    async def until_warm(self, of: Shape, count: int = 1) -> list[Any]:
        """Wait until so many placeholders are warm; returns them."""
        await self.until(lambda: len(self.warm(of)) == count, what=f"{count} are warm")
        return self.warm(of)

    # --- what can be seen -----------------------------------------------------------------------------------------------

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.cluster.namespace, name)

    def warm(self, of: Shape) -> list[Any]:
        """Placeholders that are ready for a handover: another watch also shows that their claims are allocated."""
        claims = self.watch.snapshot.claims
        return [
            each
            for each in self.reconciler.view().warm(of.id)
            if all(key in claims and claims[key].claim.is_allocated for key in each.claims)
        ]

    def node_of(self, pod: str) -> str:
        found = self.watch.snapshot.pods.get(self.key(pod))
        return found.node_name if found is not None else ""

    def device_of(self, claim: str) -> Any:
        tracked = self.watch.snapshot.claims.get(self.key(claim))
        return tracked.claim.status.devices if tracked is not None else None

    def seen_claim(self, claim: str) -> ObservedObject:
        return present(self.watch.observed(Kind.RESOURCE_CLAIM, self.key(claim)))

    def labelled(self, label: str) -> list[str]:
        return sorted(name for name, state in self.watch.snapshot.nodes.items() if label in state.node.labels)

    def placeholders_on(self, node: str) -> int:
        return len(self.reconciler.view().placeholders_of_node.get(node, ()))

    @property
    def pending(self) -> list[str]:
        """Placeholders that have no node."""
        return [each.pod.name for each in self.reconciler.view().placeholders.values() if each.is_pending]

    def deletions(self) -> list[Decision]:
        """Decisions to delete placeholders, oldest first."""
        found = self.decisions.newest(1000, matches=lambda each: each.kind == "delete-placeholder")
        return [each.decision for each in reversed(found)]

    def ended(self, cause: str) -> list[str]:
        """Names of placeholders that were deleted for a cause, oldest first."""
        return [each.subject.rpartition("/")[2] for each in self.deletions() if each.code == cause]


@contextlib.asynccontextmanager
async def at_work(
    cluster: ClusterUnderTest,
    *pairs: tuple[Shape, ReplicaRange],
    kubeconfig: Path | None = None,
    image: str = PAUSE,
    **policy: Any,
) -> AsyncIterator[PlaceholderWorld]:
    """A reconciler that holds the target of each shape, with placeholders of an image."""
    replicas = {each.id: replicas for each, replicas in pairs}
    clock = JumpingClock(datetime.now(UTC))
    async with (
        await VirtualTimeApi.connect(kubeconfig or cluster.admin_kubeconfig, Stamps(clock)) as api,
        ClusterWatch(api) as watch,
    ):
        of_pairs = Policy(shapes={each.id: each for each, _ in pairs}, replicas=replicas, **policy)
        world = PlaceholderWorld(cluster, watch, of_pairs, api, clock, image)
        async with running(world.reconciler.run()):
            yield world
