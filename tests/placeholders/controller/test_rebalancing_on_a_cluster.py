"""Placeholders are drawn to the newest node, and move there only when it is ready, empty, and where they really land."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.policy import Budget, Policy, ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import IMAGE, shape
from tests.placeholders.controller.rebalancing_world import MovingWorld, moving

PLAIN = shape({})
#: The scheduler avoids a node for this by more than the weight of a node that attracts placeholders.
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
    """Although its name is not the last, and the scheduler likes the large one better otherwise."""
    async with moving(cluster, policy(ReplicaRange(0, 10))) as world:
        await world.node("node-z", cpu="100")
        await world.rest()
        assert world.labelled(names.ATTRACT) == ["node-z"]
        await world.node("node-a")
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-a"], what="the newest attracts")
        world.keep(PLAIN, ReplicaRange(3, 10))
        await world.until(lambda: len(world.warm(PLAIN)) == 3, what="all are there")
        await world.rest()
        assert world.placeholders_on("node-a") == 3
        await world.node("node-m")
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-m"], what="the newest attracts")
        await world.rest()
        # None moves from a node without users: that may become empty.
        assert world.placeholders_on("node-a") == 3
        assert world.ended("rebalance") == []


async def with_users_on_the_old_node(world: MovingWorld, count: int) -> None:
    """A node with a user and placeholders."""
    await world.node("node-b")
    await world.until(lambda: len(world.warm(PLAIN)) == count, what="all are there")
    await world.pod("ada", node="node-b")
    await world.rest()
    assert world.placeholders_on("node-b") == count


async def no_image(world: MovingWorld) -> Callable[[], Awaitable[Any]]:
    await world.node("node-a", images=())
    return lambda: world.pull("node-a")


async def not_empty(world: MovingWorld) -> Callable[[], Awaitable[Any]]:
    await world.node("node-a", images=())
    await world.pod("stranger", node="node-a", component="batch")
    await world.pull("node-a")
    return lambda: world.leave("stranger")


async def better_elsewhere(world: MovingWorld) -> Callable[[], Awaitable[Any]]:
    """On a third node, which has no users either, and no images: it is no goal by itself."""
    await world.node("node-c", images=())
    await world.node("node-a", taints=[DISLIKED])
    return lambda: world.cluster.admin.patch("/api/v1/nodes/node-a", {"spec": {"taints": []}})


@pytest.mark.parametrize(
    ("obstacle", "denied"), [(no_image, set()), (not_empty, set()), (better_elsewhere, {"landing"})]
)
async def test_placeholders_move_once_nothing_stands_against_it(
    cluster: ClusterUnderTest,
    obstacle: Callable[[MovingWorld], Awaitable[Callable[[], Awaitable[Any]]]],
    denied: set[str],
) -> None:
    """To a new, empty, ready node on which the scheduler puts what replaces them."""
    async with moving(cluster, policy(ReplicaRange(2, 4, floor=0))) as world:
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
        # Each went once, and each replacement landed there at its first try.
        assert len(world.ended("rebalance")) == 2
        after = {name: node for name, node in world.places.items() if name not in (*before, "ada", "stranger")}
        assert list(after.values()) == ["node-a", "node-a"]


async def test_no_more_move_than_the_budget_allows(cluster: ClusterUnderTest) -> None:
    budget = Budget(per_second=1 / 3600, burst=2, per_node=10)
    async with moving(cluster, policy(ReplicaRange(5, 10, floor=0), budget)) as world:
        await with_users_on_the_old_node(world, 5)
        await world.pass_time(hours=24)
        await world.node("node-a", images=(IMAGE,))
        await world.until(lambda: world.placeholders_on("node-a") == 2, what="the burst has moved")
        await world.rest()
        assert len(world.ended("rebalance")) == 2
        await world.pass_time(hours=1)
        await world.until(lambda: world.placeholders_on("node-a") == 3, what="one more has moved")
        await world.rest()
        assert len(world.ended("rebalance")) == 3
        # It fills to its burst only.
        await world.pass_time(hours=24)
        await world.until(lambda: world.placeholders_on("node-a") == 5, what="all have moved")
        assert len(world.ended("rebalance")) == 5


async def test_the_floor_stays_and_a_node_loses_few_at_once(cluster: ClusterUnderTest) -> None:
    async with moving(cluster, policy(ReplicaRange(3, 10, floor=3))) as world:
        await with_users_on_the_old_node(world, 3)
        await world.node("node-a")
        await world.pass_time(hours=1)
        assert world.ended("rebalance") == []
        assert {each.value for each in world.denied.values()} == {"floor"}
        world.keep(PLAIN, ReplicaRange(3, 10, floor=2))
        await world.until(lambda: world.placeholders_on("node-a") == 3, what="one after the other has moved")
        assert len(world.ended("rebalance")) == 3
