"""Users fill the truly busiest node. Nodes that they hardly use become empty, so that an autoscaler removes them."""

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
from tests.placeholders.controller.rebalancing_world import RebalancingWorld, rebalancing

PLAIN = shape({})
PART = shape({"gpu": claim_spec("gpu-share.example.com", "10Gi")})
HALF_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "20Gi")}
HALF = shape(HALF_CLAIM)
HALF_TEMPLATE = {"gpu": {"resourceClaimTemplateName": "half"}}


def policy(*shapes: Shape, drain_below: float = 0.0) -> Policy:
    return Policy(shapes={each.id: each for each in shapes}, drain_below=drain_below)


async def add_node_with_placeholders(world: RebalancingWorld, node: str, count: int, of: Shape = PLAIN) -> None:
    """Add a node and raise the target, so that the new placeholders come to this node and ``count`` exist in all."""
    await world.node(node, *(() if of is PLAIN else (shareable("gpu-0"),)))
    await world.until(lambda: world.labelled(names.ATTRACT) == [node], what="the newest attracts")
    before = len(world.warm(of))
    world.set_replicas(of, ReplicaRange(count, 10))
    await world.until(lambda: len(world.warm(of)) == count, what="all are there")
    assert world.placeholders_on(node) == count - before


async def test_a_node_below_the_threshold_becomes_empty(cluster: ClusterUnderTest) -> None:
    """A hardly used node without users becomes empty; a node with a user, or one that other pods use much, does not."""
    at_once = replace(policy(PLAIN, drain_below=0.2), grace=Grace(freed_node=timedelta(0)))
    async with rebalancing(cluster, at_once) as world:
        await add_node_with_placeholders(world, "node-much-used", 1)
        await world.pod("batch", node="node-much-used", component="batch", cpu="5")
        await add_node_with_placeholders(world, "node-hardly-used", 2)
        await add_node_with_placeholders(world, "node-of-ada", 3)
        await world.pod("ada", node="node-of-ada")
        await world.rest()
        assert world.labelled(names.DRAINING) == []
        await world.pass_time(hours=1)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        await world.until(lambda: len(world.warm(PLAIN)) == 3, what="evicted placeholders are replaced")
        assert world.pods_on("node-hardly-used") == []
        assert len(world.ended("drain")) == 1
        await world.pass_time(hours=24)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        assert world.pods_on("node-hardly-used") == []
        await world.cluster.remove_node("node-hardly-used")
        assert len(world.warm(PLAIN)) == 3
        assert (world.node_of("ada"), world.node_of("batch")) == ("node-of-ada", "node-much-used")


async def test_a_node_with_a_user_is_left_alone(cluster: ClusterUnderTest) -> None:
    """The node stays until its user has been gone for a while. A user that comes back ends the draining."""
    async with rebalancing(cluster, policy(PLAIN, drain_below=0.5)) as world:
        await world.node("node-b")
        await add_node_with_placeholders(world, "node-a", 2)
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
    ("placeholder_shape", "server_shape", "entries"),
    [pytest.param(PLAIN, PLAIN, {}, id="cpu"), pytest.param(PART, HALF, HALF_TEMPLATE, id="shares")],
)
async def test_users_go_to_the_truly_busiest_node(
    cluster: ClusterUnderTest, placeholder_shape: Shape, server_shape: Shape, entries: Mapping[str, Any]
) -> None:
    """Not to the node that only placeholders make fuller, nor to the empty node, which the scheduler would choose."""
    devices = (shareable("gpu-0"),) if server_shape.claims else ()
    async with rebalancing(cluster, policy(placeholder_shape, server_shape, drain_below=-1.0)) as world:
        if server_shape.claims:
            template = {"metadata": {"name": "half"}, "spec": {"spec": HALF_CLAIM["gpu"]}}
            await cluster.publish({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template})
        await add_node_with_placeholders(world, "node-placeholders", 3, placeholder_shape)
        await world.node("node-busy", *devices)
        await world.pod("ada", entries, node="node-busy", cpu="2")
        await world.node("node-empty", *devices)
        await world.rest()
        assert world.placeholders_on("node-placeholders") == 3
        reservation = await world.reservations.place(server_shape, cluster.namespace, "eve")
        assert (reservation.placement.kind, reservation.placement.node) == (PlacementKind.FRESH, "node-busy")
        assert await world.pod("eve", entries, reservation=reservation) == "node-busy"
        # A pod without a preferred node goes to the emptiest node.
        assert await world.pod("bob", entries) == "node-empty"
