"""The newest node attracts placeholders. They are rebalanced to a node that is ready and empty, if they fit there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.policy import Budget, Policy, ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import IMAGE, shape
from tests.placeholders.controller.rebalancing_world import RebalancingWorld, rebalancing

PLAIN = shape({})
#: The scheduler avoids a node with this taint more strongly than it prefers a node that attracts placeholders.
DISLIKED = {"key": "example.com/disliked", "effect": "PreferNoSchedule"}
LONG = timedelta(days=7)


def policy(replicas: ReplicaRange, budget: Budget | None = None) -> Policy:
    return Policy(
        shapes={PLAIN.id: PLAIN},
        replicas={PLAIN.id: replicas},
        budget=budget or Budget(),
        newest=LONG,
        drain_below=-1.0,
    )


async def test_the_newest_node_attracts_placeholders(cluster: ClusterUnderTest) -> None:
    """Its name is not the last, and the scheduler otherwise prefers the large node."""
    async with rebalancing(cluster, policy(ReplicaRange(0, 10))) as world:
        await world.node("node-z", cpu="100")
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-z"], what="the only node attracts")
        await world.rest()
        assert world.labelled(names.ATTRACT) == ["node-z"]
        await world.node("node-a")
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-a"], what="the newest attracts")
        world.set_replicas(PLAIN, ReplicaRange(3, 10))
        await world.until(lambda: len(world.warm(PLAIN)) == 3, what="all are there")
        await world.rest()
        assert world.placeholders_on("node-a") == 3
        await world.node("node-m")
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-m"], what="the newest attracts")
        await world.rest()
        # No placeholder is rebalanced from a node without users, as that node may become empty.
        assert world.placeholders_on("node-a") == 3
        assert world.ended("rebalance") == []


async def with_users_on_the_old_node(world: RebalancingWorld, count: int) -> None:
    """Create a node with a user and placeholders."""
    await world.node("node-b")
    await world.until(lambda: len(world.warm(PLAIN)) == count, what="all are there")
    await world.pod("ada", node="node-b")
    await world.rest()
    assert world.placeholders_on("node-b") == count


async def no_image(world: RebalancingWorld) -> Callable[[], Awaitable[Any]]:
    await world.node("node-a", images=())
    return lambda: world.pull("node-a")


async def not_empty(world: RebalancingWorld) -> Callable[[], Awaitable[Any]]:
    await world.node("node-a", images=())
    await world.pod("stranger", node="node-a", component="batch")
    await world.pull("node-a")
    return lambda: world.leave("stranger")


async def better_third_node(world: RebalancingWorld) -> Callable[[], Awaitable[Any]]:
    """A third node, without users and without images, is no target of rebalancing, but the scheduler prefers it."""
    await world.node("node-c", images=())
    await world.node("node-a", taints=[DISLIKED])

    async def remove() -> None:
        # The service must not know this before the scheduler does: until then, the node is not empty.
        await world.pod("stranger", node="node-a", component="batch")
        change = {"metadata": {"labels": {"example.com/liked": ""}}, "spec": {"taints": []}}
        await world.cluster.admin.patch("/api/v1/nodes/node-a", change)
        await world.pod("stranger-too", node="node-a", component="batch", label="example.com/liked")
        for name in ("stranger", "stranger-too"):
            await world.leave(name)

    return remove


@pytest.mark.parametrize(
    ("obstacle", "denied"), [(no_image, set()), (not_empty, set()), (better_third_node, {"landing"})]
)
async def test_placeholders_are_rebalanced_once_nothing_prevents_it(
    cluster: ClusterUnderTest,
    obstacle: Callable[[RebalancingWorld], Awaitable[Callable[[], Awaitable[Any]]]],
    denied: set[str],
) -> None:
    """The target is a new, empty, ready node that the scheduler chooses for the replacements."""
    async with rebalancing(cluster, policy(ReplicaRange(2, 4, floor=0))) as world:
        await with_users_on_the_old_node(world, 2)
        before = {each.pod.name for each in world.reconciler.view().placeholders.values()}
        remove = await obstacle(world)
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-a"], what="the newest attracts")
        await world.pass_time(minutes=5)
        assert world.ended("rebalance") == []
        assert world.placeholders_on("node-b") == 2
        assert {each.value for each in world.denied.values()} == denied
        await remove()
        await world.until(lambda: world.placeholders_on("node-a") == 2, what="they are on the new node")
        assert sorted(world.ended("rebalance")) == sorted(before)
        assert world.placeholders_on("node-b") == 0
        assert world.node_of("ada") == "node-b"
        await world.pass_time(minutes=5)
        # Each placeholder is evicted once, and each replacement lands on the new node at its first try.
        others = ("ada", "stranger", "stranger-too")
        assert len(world.ended("rebalance")) == 2
        after = {name: node for name, node in world.nodes_of_pods.items() if name not in (*before, *others)}
        assert list(after.values()) == ["node-a", "node-a"]


async def test_the_budget_limits_rebalancing(cluster: ClusterUnderTest) -> None:
    budget = Budget(per_second=1 / 3600, burst=2, per_node=10)
    async with rebalancing(cluster, policy(ReplicaRange(5, 10, floor=0), budget)) as world:
        await with_users_on_the_old_node(world, 5)
        await world.pass_time(hours=24)
        await world.node("node-a", images=(IMAGE,))
        await world.until(lambda: world.placeholders_on("node-a") == 2, what="the burst was rebalanced")
        await world.rest()
        assert len(world.ended("rebalance")) == 2
        await world.pass_time(hours=1)
        await world.until(lambda: world.placeholders_on("node-a") == 3, what="one more was rebalanced")
        await world.rest()
        assert len(world.ended("rebalance")) == 3
        # The bucket fills to its burst only.
        await world.pass_time(hours=24)
        await world.until(lambda: world.placeholders_on("node-a") == 5, what="all were rebalanced")
        assert len(world.ended("rebalance")) == 5


async def test_the_floor_stays_and_a_node_loses_few_at_once(cluster: ClusterUnderTest) -> None:
    async with rebalancing(cluster, policy(ReplicaRange(3, 10, floor=3))) as world:
        await with_users_on_the_old_node(world, 3)
        await world.node("node-a")
        await world.pass_time(hours=1)
        assert world.ended("rebalance") == []
        assert {each.value for each in world.denied.values()} == {"floor"}
        world.set_replicas(PLAIN, ReplicaRange(3, 10, floor=2))
        await world.until(lambda: world.placeholders_on("node-a") == 3, what="one after the other was rebalanced")
        assert len(world.ended("rebalance")) == 3
