"""Users fill the truly busiest node, and nodes that they hardly need become empty, so that an autoscaler takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.placement import PlacementKind
from dra_spawner.placeholders.planner.policy import Grace, Policy, ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.placeholders.controller.objects import claim_spec, shape
from tests.placeholders.controller.rebalancing_world import MovingWorld, moving

PLAIN = shape({})
PART = shape({"gpu": claim_spec("gpu-share.example.com", "10Gi")})
HALF_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "20Gi")}
HALF = shape(HALF_CLAIM)
HALF_TEMPLATE = {"gpu": {"resourceClaimTemplateName": "half"}}


def policy(*shapes: Shape, drain_below: float = 0.0) -> Policy:
    return Policy(shapes={each.id: each for each in shapes}, drain_below=drain_below)


async def keep_on_the_newest(world: MovingWorld, node: str, count: int, of: Shape = PLAIN) -> None:
    """One more node, which the placeholders come to that are wanted from now on, so that there are so many in all."""
    await world.node(node, *(() if of is PLAIN else (shareable("gpu-0"),)))
    await world.until(lambda: world.labelled(names.ATTRACT) == [node], what="the newest attracts")
    before = len(world.warm(of))
    world.keep(of, ReplicaRange(count, 10))
    await world.until(lambda: len(world.warm(of)) == count, what="all are there")
    assert world.placeholders_on(node) == count - before


async def test_a_node_below_the_threshold_becomes_empty(cluster: ClusterUnderTest) -> None:
    """One without users that others use little of; not one with a user, nor one that others use much of."""
    at_once = replace(policy(PLAIN, drain_below=0.2), grace=Grace(freed_node=timedelta(0)))
    async with moving(cluster, at_once) as world:
        await keep_on_the_newest(world, "node-much-used", 1)
        await world.pod("batch", node="node-much-used", component="batch", cpu="5")
        await keep_on_the_newest(world, "node-hardly-used", 2)
        await keep_on_the_newest(world, "node-of-ada", 3)
        await world.pod("ada", node="node-of-ada")
        await world.rest()
        assert world.labelled(names.DRAINING) == []
        await world.pass_time(hours=1)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        await world.until(lambda: len(world.warm(PLAIN)) == 3, what="what left is replaced")
        assert world.pods_on("node-hardly-used") == []
        assert len(world.ended("drain")) == 1
        await world.pass_time(hours=24)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        assert world.pods_on("node-hardly-used") == []
        await world.cluster.remove_node("node-hardly-used")
        assert len(world.warm(PLAIN)) == 3
        assert (world.node_of("ada"), world.node_of("batch")) == ("node-of-ada", "node-much-used")


async def test_a_node_with_a_user_is_left_alone(cluster: ClusterUnderTest) -> None:
    """Until the user has been gone for a while; and whoever comes back ends it."""
    async with moving(cluster, policy(PLAIN, drain_below=0.5)) as world:
        await world.node("node-b")
        await keep_on_the_newest(world, "node-a", 2)
        await world.pod("ada", node="node-a")
        before = set(world.reconciler.view().placeholders)
        await world.pass_time(hours=1)
        await world.pass_time(hours=24)
        assert world.labelled(names.DRAINING) == []
        assert set(world.reconciler.view().placeholders) == before
        assert world.placeholders_on("node-a") == 2
        await world.leave("ada")
        await world.pass_time(minutes=9)
        assert world.labelled(names.DRAINING) == []
        await world.pass_time(minutes=2)
        assert world.labelled(names.DRAINING) == ["node-a"]
        await world.until(lambda: world.placeholders_on("node-b") == 2, what="they have left")
        assert world.pods_on("node-a") == []
        assert sorted(world.ended("drain")) == sorted(key.name for key in before)


@pytest.mark.parametrize(
    ("kept", "wanted", "entries"),
    [pytest.param(PLAIN, PLAIN, {}, id="cpu"), pytest.param(PART, HALF, HALF_TEMPLATE, id="shares")],
)
async def test_users_go_to_the_truly_busiest_node(
    cluster: ClusterUnderTest, kept: Shape, wanted: Shape, entries: Mapping[str, Any]
) -> None:
    """Not to the one that placeholders make look fuller, nor to the empty one, where the scheduler would put them."""
    devices = (shareable("gpu-0"),) if wanted.claims else ()
    async with moving(cluster, policy(kept, wanted, drain_below=-1.0)) as world:
        if wanted.claims:
            template = {"metadata": {"name": "half"}, "spec": {"spec": HALF_CLAIM["gpu"]}}
            await cluster.publish({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template})
        await keep_on_the_newest(world, "node-placeholders", 3, kept)
        await world.node("node-busy", *devices)
        await world.pod("ada", entries, node="node-busy", cpu="2")
        await world.node("node-empty", *devices)
        await world.rest()
        assert world.placeholders_on("node-placeholders") == 3
        reservation = await world.reservations.place(wanted, cluster.namespace, "eve")
        assert (reservation.placement.kind, reservation.placement.node) == (PlacementKind.FRESH, "node-busy")
        assert await world.pod("eve", entries, reservation=reservation) == "node-busy"
        # What nobody prefers a node for goes where the least is.
        assert await world.pod("bob", entries) == "node-empty"
