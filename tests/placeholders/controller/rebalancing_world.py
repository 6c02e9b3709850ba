"""A reconciler on a cluster under test, whose clock the test sets forward, so that nodes grow old at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.controller.reconciler import ReconcilerTimes
from dra_spawner.placeholders.controller.reservations import ReservedPlacement
from dra_spawner.placeholders.planner.actions import Hold
from dra_spawner.placeholders.planner.policy import Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod
from dra_spawner.spawner.placement.answer import PlacementAnswer
from dra_spawner.spawner.placement.pod import OriginalPod
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import image_list
from tests.placeholders.controller.objects import IMAGE, node, prepare, user_pod
from tests.placeholders.controller.world import PlaceholderWorld
from tests.polling import PATIENCE_SECONDS
from tests.running import running
from tests.virtual_time.api import Stamps, VirtualTimeApi
from tests.virtual_time.clock import JumpingClock

Json = dict[str, Any]

#: After this number of rounds without a decision, the world is at rest.
_ROUNDS = 4


class RebalancingWorld(PlaceholderWorld):
    """See the module."""

    def __init__(
        self, cluster: ClusterUnderTest, watch: ClusterWatch, policy: Policy, api: VirtualTimeApi, clock: JumpingClock
    ) -> None:
        super().__init__(cluster, watch, policy, api)
        self.clock = clock
        self.reconciler.now = clock.now
        self.reconciler.times = ReconcilerTimes(idle=0.05)
        self.drained_with_users: list[str] = []
        """Nodes that were marked for draining although they had users."""
        self.nodes_of_pods: dict[str, str] = {}
        """The last node of each pod."""
        watch.on_change(self._note)

    # --- what happens -------------------------------------------------------------------------------------------------

    async def node(
        self,
        name: str,
        *devices: Json,
        cpu: str = "10",
        images: Sequence[str] = (IMAGE,),
        taints: Sequence[Json] = (),
    ) -> None:
        """Create a node, a minute after the previous change."""
        self.clock.jump_to(self.clock.now() + timedelta(minutes=1))
        objects = node(name, *devices, images=images)
        objects[0]["status"]["capacity"]["cpu"] = cpu
        if taints:
            objects[0]["spec"]["taints"] = list(taints)
        await self.cluster.publish(*objects)
        # The stamp is translated when the node is first seen. That must be before the clock jumps again.
        await self.until(lambda: name in self.watch.snapshot.nodes, what=f"node {name}")

    async def pull(self, node: str) -> None:
        status = {"images": image_list([IMAGE])}
        await self.cluster.admin.patch(f"/api/v1/nodes/{node}/status", {"status": status})

    async def pod(
        self,
        name: str,
        entries: Mapping[str, Json] | None = None,
        *,
        node: str = "",
        reservation: ReservedPlacement | None = None,
        component: str = names.USER_SERVER,
        cpu: str = "1",
        label: str = "",
    ) -> str:
        """Create a pod: on a given node, with claims of templates, or as the spawner makes it. Returns its node.

        Parameters
        ----------
        label
            The pod waits until its node has this label.
        """
        manifest = user_pod(name, entries or {}, cpu, ready=False)
        manifest["metadata"]["labels"][names.COMPONENT] = component
        if node:
            manifest["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node, **({label: ""} if label else {})}
        if reservation is not None:
            assert not reservation.claims
            changed = SimpleNamespace(spec=SimpleNamespace())
            answer = PlacementAnswer(reservation.placement.kind, reservation.placement.node)
            OriginalPod.of(manifest).place(changed, answer)
            manifest["spec"]["affinity"] = changed.spec.affinity
        await self.cluster.publish(manifest)
        await self.until(lambda: bool(self.node_of(name)), what=f"{name} has a node")
        return self.node_of(name)

    async def leave(self, name: str) -> None:
        await self.cluster.admin.delete(self.cluster.path("pods", name), grace_period_seconds=0)
        await self.until(lambda: self.key(name) not in self.watch.snapshot.pods, what=f"{name} has left")

    async def pass_time(self, **time: float) -> None:
        """Let time pass, and let the reconciler decide."""
        self.clock.jump_to(self.clock.now() + timedelta(**time))
        await self.rest()

    async def rest(self) -> None:
        """Wait until nothing has been decided for a few rounds."""
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while asyncio.get_running_loop().time() < end:
            before = self.decisions.count
            for _ in range(_ROUNDS):
                latest = self.reconciler.latest
                self.reconciler.wake()
                await self.until(lambda: self.reconciler.latest is not latest, what="it was decided again")  # noqa: B023 (awaited at once)
            if self.decisions.count == before and not self.pending():
                return
        raise AssertionError(f"did not come to rest: {self.decisions.newest(10)}")

    def set_replicas(self, of: Shape, replicas: ReplicaRange) -> None:
        self.policy = replace(self.policy, replicas={of.id: replicas})
        self.reconciler.wake()

    # --- what can be seen -----------------------------------------------------------------------------------------------

    def key(self, name: str) -> ObjectKey:
        return ObjectKey(self.cluster.namespace, name)

    def node_of(self, pod: str) -> str:
        found = self.watch.snapshot.pods.get(self.key(pod))
        return found.node_name if found is not None else ""

    def labelled(self, label: str) -> list[str]:
        return sorted(name for name, state in self.watch.snapshot.nodes.items() if label in state.node.labels)

    def pods_on(self, node: str) -> list[Pod]:
        return [pod for pod in self.watch.snapshot.pods.values() if pod.node_name == node]

    def placeholders_on(self, node: str) -> int:
        return len(self.reconciler.view().placeholders_of_node.get(node, ()))

    def pending(self) -> list[str]:
        return [each.pod.name for each in self.reconciler.view().placeholders.values() if each.is_pending]

    def ended(self, cause: str) -> list[str]:
        """Names of placeholders that were deleted for a cause, oldest first."""
        found = self.decisions.newest(
            1000, matches=lambda each: each.kind == "delete-placeholder" and each.code == cause
        )
        return [each.decision.subject.rpartition("/")[2] for each in reversed(found)]

    @property
    def denied(self) -> Mapping[ObjectKey, Hold]:
        """Placeholders that should be rebalanced but stay, with the reason, in the newest decisions."""
        latest = self.reconciler.latest
        return latest.denied if latest is not None else {}

    def users_on(self, node: str) -> list[str]:
        return [each.name for each in self.pods_on(node) if each.labels.get(names.COMPONENT) == names.USER_SERVER]

    def _note(self, change: Change) -> None:
        if change.kind is Kind.POD:
            pod = self.watch.snapshot.pods.get(change.key)
            if pod is not None and pod.node_name:
                self.nodes_of_pods[pod.name] = pod.node_name
        elif change.kind is Kind.NODE:
            name = change.key.name
            if name in self.labelled(names.DRAINING) and self.users_on(name):
                self.drained_with_users.append(name)


@contextlib.asynccontextmanager
async def rebalancing(cluster: ClusterUnderTest, policy: Policy) -> AsyncIterator[RebalancingWorld]:
    """A cluster without nodes, and a reconciler at work on it."""
    await prepare(cluster)
    clock = JumpingClock(datetime.now(UTC))
    async with (
        await VirtualTimeApi.connect(cluster.admin_kubeconfig, Stamps(clock)) as api,
        ClusterWatch(api) as watch,
    ):
        world = RebalancingWorld(cluster, watch, policy, api, clock)
        async with running(world.reconciler.run()):
            yield world
            assert world.drained_with_users == []
