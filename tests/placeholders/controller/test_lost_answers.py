"""Lost answers never lead to more placeholders than wanted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi
from dra_spawner.kube.cluster_watch import Change, ClusterWatch
from dra_spawner.placeholders.controller.round.backoff import Backoff
from dra_spawner.placeholders.controller.round.expectations import Expectations
from dra_spawner.placeholders.controller.round.reconciler import ReconcilerTimes
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.fault_proxy import Fault, FaultProxy
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.set_clock import SetClock

GPU = shape(WHOLE)
PLAIN = shape({})


@dataclass
class Observer:
    """Sees all placeholders through its own connection."""

    watch: ClusterWatch
    most: int = 0
    names: set[str] = field(default_factory=set)

    def note(self, change: Change) -> None:
        if change.kind is Kind.POD:
            pods = [
                pod
                for pod in self.watch.snapshot.pods.values()
                if pod.labels.get(names.COMPONENT) == names.PLACEHOLDER and not pod.is_deleted
            ]
            self.most = max(self.most, len(pods))
            self.names |= {pod.name for pod in pods}


@contextlib.asynccontextmanager
async def observed(cluster: ClusterUnderTest) -> AsyncIterator[Observer]:
    async with await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api, ClusterWatch(api) as watch:
        await watch.wait_synced()
        observer = Observer(watch)
        watch.on_change(observer.note)
        yield observer


@contextlib.asynccontextmanager
async def blind(
    cluster: ClusterUnderTest, of: Shape, *others: str
) -> AsyncIterator[tuple[PlaceholderWorld, FaultProxy, Observer]]:
    """A reconciler whose watches show no new pods, no new claims and none of ``others``, and four devices."""
    await prepare(cluster, *node("node-a", *(whole(f"gpu-{number}") for number in range(4))))
    async with cluster.fault_proxy() as proxy, observed(cluster) as observer:
        kubeconfig = await service_kubeconfig(cluster, server=proxy.url)
        async with at_work(cluster, (of, ReplicaRange(0, 0)), kubeconfig=kubeconfig) as world:
            await world.watch.wait_synced()
            world.reconciler.times = ReconcilerTimes(idle=0.05, unseen=0.2)
            # A refused request is repeated at once. Otherwise the test would end too early.
            world.reconciler.backoff = Backoff(0.05, 0.05, 10)
            for resource in ("pods", "resourceclaims", *others):
                proxy.fail(Fault.refuse(), verb="watch", resource=resource, times=None)
            proxy.cut()
            yield world, proxy, observer


async def want_two(world: PlaceholderWorld, observer: Observer, of: Shape) -> None:
    world.set_replicas(of, 2, 2)
    await world.until(lambda: observer.most == 2, what="both are there")


async def decide_again(world: PlaceholderWorld) -> None:
    rounds = world.decisions.decided_at
    await world.until(lambda: world.decisions.decided_at != rounds, what="it was decided again")


async def heal(world: PlaceholderWorld, proxy: FaultProxy, of: Shape) -> None:
    proxy.heal()
    await world.until_warm(of, 2)


@pytest.mark.parametrize(
    ("verb", "resource", "of"),
    [
        pytest.param("create", "pods", GPU, id="of-the-pod"),
        pytest.param("create", "resourceclaims", GPU, id="of-the-claim"),
        pytest.param("patch", "resourceclaims", GPU, id="of-the-claim's-owner"),
        pytest.param("create", "pods", PLAIN, id="of-a-pod-without-claims"),
    ],
)
async def test_a_lost_answer_creates_no_extra_placeholder(
    cluster: ClusterUnderTest, verb: str, resource: str, of: Shape
) -> None:
    async with blind(cluster, of) as (world, proxy, observer):
        # Deletions fail, too, so no surplus can be corrected.
        proxy.fail(Fault.refuse(), verb="delete", times=None)
        proxy.fail(Fault.lose_answer(), verb=verb, resource=resource, times=2)
        await want_two(world, observer, of)
        for _ in range(4):
            await decide_again(world)
        assert not any("Forbidden" in each.decision.outcome for each in world.decisions.newest(100))
        await heal(world, proxy, of)
        assert (observer.most, len(observer.names)) == (2, 2)
    claims = (await cluster.admin.list(cluster.path("resourceclaims")))["items"]
    assert len(claims) == 2 * len(of.claims)


async def test_other_unseen_changes_create_no_extra_placeholder(cluster: ClusterUnderTest) -> None:
    """Node labels are written in each round, as no label is seen. The first placeholders are not forgotten."""
    async with blind(cluster, GPU, "nodes") as (world, proxy, observer):
        await want_two(world, observer, GPU)
        written = proxy.count("patch", "nodes")
        await world.until(lambda: proxy.count("patch", "nodes") >= written + 3, what="labels again and again")
        await heal(world, proxy, GPU)
        assert observer.most == 2


async def test_a_placeholder_that_is_gone_before_it_was_seen_is_not_awaited(cluster: ClusterUnderTest) -> None:
    """For example, the node is lost while the watch is broken."""
    async with blind(cluster, GPU) as (world, proxy, observer):
        await want_two(world, observer, GPU)
        await decide_again(world)
        gone = set(observer.names)
        for name in gone:
            await cluster.admin.delete(cluster.path("pods", name), grace_period_seconds=0)
        await heal(world, proxy, GPU)
        assert len(observer.names - gone) == 2


@pytest.mark.parametrize("of", [pytest.param(GPU, id="with-claims"), pytest.param(PLAIN, id="without")])
async def test_a_refusal_after_a_lost_answer_destroys_nothing(cluster: ClusterUnderTest, of: Shape) -> None:
    """For example, a quota is full by now. Existing objects stay, and are used once the quota has capacity."""
    async with blind(cluster, of) as (world, proxy, observer):
        proxy.fail(Fault.lose_answer(), verb="create", resource="pods", times=2)
        proxy.fail(Fault.answer(403, "Forbidden", "exceeded quota"), verb="create", resource="pods", times=3)
        await want_two(world, observer, of)

        def outcomes() -> list[str]:
            return [each.decision.outcome for each in world.decisions.newest(100)]

        await world.until(lambda: any("exceeded quota" in each for each in outcomes()), what="refused")
        await world.until(lambda: outcomes()[0] == "done", what="made or found")
        await heal(world, proxy, of)
        assert (observer.most, len(observer.names)) == (2, 2)
        assert not any(request.verb == "delete" for request in proxy.requests)


def test_a_name_is_taken_once_and_not_for_ever() -> None:
    clock = SetClock(0.0)
    names = Expectations(clock=clock)
    assert names.take_unanswered("a") is None
    names.keep_unanswered("a", "one")
    names.keep_unanswered("a", "two")
    names.keep_unanswered("b", "three")
    assert [names.take_unanswered("a"), names.take_unanswered("a"), names.take_unanswered("a")] == ["one", "two", None]
    clock.now += 121
    assert names.take_unanswered("b") is None
