"""Two replicas, a hub and users on a cluster whose network loses answers, breaks connections and cuts off leaders."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from dra_spawner.cluster.api import KubernetesApi
from dra_spawner.cluster.cluster_watch import Change, ChangeType, ClusterWatch
from dra_spawner.headroom import labels
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind
from dra_spawner.simulator.pods import Pod
from dra_spawner.web.context import Role
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.world import shape
from tests.service.replica import WHOLE, Replica, node, prepare, publish_shapes, replica

pytestmark = pytest.mark.timeout(240)

GPU = shape(WHOLE)
MOST = 4
STEPS = 60
FAULTS = (Fault.lose_answer(), Fault.refuse(), Fault.answer(500), Fault.answer(409), Fault.answer(429))
WRITES = (
    ("create", "pods"),
    ("create", "resourceclaims"),
    ("patch", "resourceclaims"),
    ("delete", "pods"),
    ("update", "resourceclaims/status"),
    ("patch", "nodes"),
)


@dataclass
class Observer:
    """Sees everything by a connection of its own, and notes what must never be."""

    watch: ClusterWatch
    namespace: str
    left: set[str] = field(default_factory=set)
    """Users' pods that the test itself deleted."""
    wrong: list[str] = field(default_factory=list)
    most: int = 0
    handed_over: int = 0

    def note(self, change: Change) -> None:
        if change.kind is not Kind.POD:
            return
        pods = self.watch.snapshot.pods
        if change.type is ChangeType.ADDED and change.key.name.startswith("user-"):
            self.handed_over += 1
        if change.type is ChangeType.REMOVED and change.key.name.startswith("user-"):
            if change.key.name not in self.left:
                self.wrong.append(f"{change.key} was deleted by somebody else")
            return
        named = Counter(
            each.claim
            for pod in pods.values()
            if pod.labels.get(labels.COMPONENT) == labels.USER_SERVER
            for each in pod.claims
            if each.claim
        )
        self.wrong += [f"{claim} is {count} users'" for claim, count in named.items() if count > 1]
        kept = [pod for pod in pods.values() if pod.labels.get(labels.COMPONENT) == labels.PLACEHOLDER]
        self.most = max(self.most, sum(not pod.is_deleted for pod in kept))


class Chaos:
    """Does one random thing after the other."""

    def __init__(
        self, cluster: ClusterUnderTest, seed: int, observer: Observer, replicas: list[tuple[Replica, FaultProxy]]
    ) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.observer = observer
        self.replicas = replicas
        self.users: list[str] = []
        self.number = 0

    async def step(self) -> None:
        happening = self.random.choices((self.arrive, self.leave, self.lose, self.cut, self.heal), (10, 4, 4, 1, 6))[0]
        await happening()
        latest = [service.keeper.latest for service, _ in self.replicas]
        # Something is decided, or nobody leads; either way the next thing may happen.
        with contextlib.suppress(AssertionError):
            await self.replicas[0][0].until(
                lambda: [service.keeper.latest for service, _ in self.replicas] != latest, seconds=0.3
            )
        assert self.observer.wrong == []

    async def arrive(self) -> None:
        """As the spawner does: asks any replica, and makes the pod of the answer, if there is one with claims."""
        self.number += 1
        name = f"user-{self.number}"
        service, _ = self.random.choice(self.replicas)
        status, answer = await service.ask({"shape": GPU.id, "pod": name, "namespace": self.cluster.namespace})
        if status == 200 and answer["claims"] and self.random.random() < 0.8:
            await service.start(GPU, name, WHOLE, answer)
            self.users.append(name)

    async def leave(self) -> None:
        if self.users:
            name = self.users.pop(self.random.randrange(len(self.users)))
            self.observer.left.add(name)
            await self.cluster.admin.delete(self.cluster.path("pods", name), grace_period_seconds=0)

    async def lose(self) -> None:
        verb, resource = self.random.choice(WRITES)
        _, proxy = self.random.choice(self.replicas)
        proxy.fail(self.random.choice(FAULTS), verb=verb, resource=resource, times=self.random.choice((1, 2)))

    async def cut(self) -> None:
        self.random.choice(self.replicas)[1].cut()

    async def partition(self) -> None:
        """Whoever leads is alone in the world until somebody else does."""
        await self.heal()
        leaders = [each for each in self.replicas if each[0].context.role is Role.LEADER]
        for service, proxy in leaders:
            proxy.fail(Fault.refuse(), times=None)
            proxy.cut()
            (other,) = [each for each, _ in self.replicas if each is not service]
            await other.until(lambda: other.context.role is Role.LEADER, "the other leads")  # noqa: B023
            proxy.heal()

    async def heal(self) -> None:
        for _, proxy in self.replicas:
            proxy.heal()


@pytest.mark.parametrize("seed", range(3))
async def test_chaos(embedded_cluster: ClusterUnderTest, seed: int) -> None:
    cluster = embedded_cluster
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(6))), *node("node-b"))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    traits: dict[str, Any] = {"headroom": {"gpu-whole": {"min": 2, "max": MOST}}, "orphan_seconds": 2.0}
    async with contextlib.AsyncExitStack() as stack:
        api = await stack.enter_async_context(await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig))
        watch = await stack.enter_async_context(ClusterWatch(api))
        await watch.wait_synced()
        observer = Observer(watch, cluster.namespace)
        watch.on_change(observer.note)
        replicas = []
        for _ in range(2):
            proxy = await stack.enter_async_context(cluster.fault_proxy())
            kubeconfig = cluster.admin_kubeconfig_for(proxy.url)
            service = await stack.enter_async_context(replica(cluster, kubeconfig, promise_seconds=5.0, **traits))
            replicas.append((service, proxy))
        chaos = Chaos(cluster, seed, observer, replicas)
        for number in range(STEPS):
            await chaos.step()
            if number % (STEPS // 3) == STEPS // 6:
                await chaos.partition()
        # Trouble ends: everything comes to rest, and nothing is left over.
        await chaos.heal()
        leader = replicas[0][0]
        await leader.until(lambda: at_rest(watch, cluster.namespace), "everything is as wanted", seconds=60)
        assert observer.wrong == []
        assert observer.most <= MOST + 1, "an answer that was lost may cost one more, for a moment"
        for name in chaos.users:
            await cluster.wait_running(name)
        assert observer.handed_over >= 3, "else little was tried"
        assert sum(service.context.elector.terms for service, _ in replicas if service.context.elector) >= 3


def at_rest(watch: ClusterWatch, namespace: str) -> bool:
    """Two places are kept that are promised to nobody, and each claim is somebody's."""
    pods = [pod for pod in watch.snapshot.pods.values() if pod.namespace == namespace and not pod.is_deleted]
    kept = [pod for pod in pods if pod.labels.get(labels.COMPONENT) == labels.PLACEHOLDER]
    claims = watch.snapshot.claims
    if claims.keys() != {key for pod in pods for key in claims_of(pod)}:
        return False
    promised = [key for pod in kept for key in claims_of(pod) if labels.RESERVED_FOR in claims[key].labels]
    return len(kept) == 2 and not promised


def claims_of(pod: Pod) -> set[ObjectKey]:
    return {ObjectKey(pod.namespace, each.claim) for each in pod.claims if each.claim}
