"""Rebalancing, draining and placements reach the cluster, whose scheduler does as the planner expects.

All other cases are in `tests/placeholders/planner/decisions/test_rebalancing.py`.
"""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from dra_spawner import names
from dra_spawner.kube.cluster_watch import Change
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.policy import Grace, ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.cluster_objects import Kind
from dra_spawner.spawner.placement.answer import PlacementAnswer
from dra_spawner.spawner.placement.pod import OriginalPod
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable
from tests.placeholders.controller.objects import claim_spec, shape, user_pod
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.presence import present

PLAIN = shape({})
PART = shape({"gpu": claim_spec("gpu-share.example.com", "10Gi")})
HALF_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "20Gi")}
HALF = shape(HALF_CLAIM)
#: The scheduler avoids a node with this taint more strongly than it prefers a node that attracts placeholders.
DISLIKED = {"key": "example.com/disliked", "effect": "PreferNoSchedule"}


def on(node: str, **labels: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node, **labels}}


async def add_node_with_placeholders(world: PlaceholderWorld, node: str, count: int, of: Shape = PLAIN) -> None:
    """Add a node and raise the target, so that the new placeholders come to this node and ``count`` exist in all."""
    await world.node(node, *(() if of is PLAIN else (shareable("gpu-0"),)))
    await world.until(lambda: world.labelled(names.ATTRACT) == [node], what="the newest attracts")
    before = len(world.warm(of))
    world.set_replicas(of, count, 10)
    await world.until_warm(of, count)
    assert world.placeholders_on(node) == count - before


async def test_placeholders_are_rebalanced_once_the_scheduler_would_choose_the_new_node(
    prepared: ClusterUnderTest,
) -> None:
    """A third node, without users and without images, is no target of rebalancing, but the scheduler prefers it."""
    replicas = ReplicaRange(2, 4, floor=0)
    async with at_work(prepared, (PLAIN, replicas), newest=timedelta(days=7), drain_below=-1.0) as world:
        nodes_of_pods: dict[str, str] = {}

        def note(change: Change) -> None:
            pod = world.watch.snapshot.pods.get(change.key) if change.kind is Kind.POD else None
            if pod is not None and pod.node_name:
                nodes_of_pods[pod.name] = pod.node_name

        world.watch.on_change(note)
        await world.node("node-b")
        before = sorted(each.pod.name for each in await world.until_warm(PLAIN, 2))
        await world.pod("ada", **on("node-b"))
        await world.settle()
        assert world.placeholders_on("node-b") == 2
        await world.node("node-c", images=())
        await world.node("node-a", taints=[DISLIKED])
        await world.until(lambda: world.labelled(names.ATTRACT) == ["node-a"], what="the newest attracts")
        await world.pass_time(minutes=5)
        assert world.ended("rebalance") == []
        assert {each.value for each in present(world.reconciler.latest).denied.values()} == {"landing"}
        # The service must not know that the taint is gone before the scheduler does: until then, the node is not empty.
        await world.pod("stranger", component="batch", **on("node-a"))
        change = {"metadata": {"labels": {"example.com/liked": ""}}, "spec": {"taints": []}}
        await prepared.admin.patch("/api/v1/nodes/node-a", change)
        await world.pod("stranger-too", component="batch", **on("node-a", **{"example.com/liked": ""}))
        for name in ("stranger", "stranger-too"):
            await world.leave(name)
        await world.until(lambda: world.placeholders_on("node-a") == 2, what="they are on the new node")
        await world.pass_time(minutes=5)
        # Each placeholder is evicted once, and each replacement lands on the new node at its first try.
        assert sorted(world.ended("rebalance")) == before
        others = (*before, "ada", "stranger", "stranger-too")
        assert [node for name, node in nodes_of_pods.items() if name not in others] == ["node-a", "node-a"]
        assert (world.placeholders_on("node-b"), world.node_of("ada")) == (0, "node-b")


async def test_a_node_below_the_threshold_becomes_empty(prepared: ClusterUnderTest) -> None:
    """A hardly used node without users becomes empty; a node with a user, or one that other pods use much, does not."""
    grace = Grace(freed_node=timedelta(0))
    async with at_work(prepared, (PLAIN, ReplicaRange(0, 10)), drain_below=0.2, grace=grace) as world:
        await add_node_with_placeholders(world, "node-much-used", 1)
        await world.pod("batch", component="batch", cpu="5", **on("node-much-used"))
        await add_node_with_placeholders(world, "node-hardly-used", 2)
        await add_node_with_placeholders(world, "node-of-ada", 3)
        await world.pod("ada", **on("node-of-ada"))
        await world.settle()
        assert world.labelled(names.DRAINING) == []
        await world.pass_time(hours=1)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        await world.until_warm(PLAIN, 3)
        assert len(world.ended("emptying")) == 1
        await world.pass_time(hours=24)
        assert world.labelled(names.DRAINING) == ["node-hardly-used"]
        assert not [pod for pod in world.watch.snapshot.pods.values() if pod.node_name == "node-hardly-used"]
        await prepared.remove_node("node-hardly-used")
        assert len(world.warm(PLAIN)) == 3
        assert (world.node_of("ada"), world.node_of("batch")) == ("node-of-ada", "node-much-used")


async def test_users_go_to_the_truly_busiest_node(prepared: ClusterUnderTest) -> None:
    """Not to the node that only placeholders make fuller, nor to the empty node, which the scheduler would choose."""
    half = {"gpu": {"resourceClaimTemplateName": "half"}}
    template = {"metadata": {"name": "half"}, "spec": {"spec": HALF_CLAIM["gpu"]}}
    await prepared.publish({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template})

    async def start(name: str, **spec: object) -> None:
        manifest = user_pod(name, half, ready=False)
        manifest["spec"] |= spec
        await prepared.publish(manifest)
        await world.until_placed(name)

    async with at_work(prepared, (HALF, ReplicaRange(0, 0)), drain_below=-1.0) as world:
        await add_node_with_placeholders(world, "node-placeholders", 3, PART)
        await world.node("node-busy", shareable("gpu-0"))
        await start("ada", **on("node-busy"))
        await world.node("node-empty", shareable("gpu-0"))
        await world.settle()
        assert world.placeholders_on("node-placeholders") == 3
        reservation = await world.reservations.place(HALF, prepared.namespace, "eve")
        assert (reservation.placement.state, reservation.placement.node) == (AvailabilityState.FREE, "node-busy")
        changed = SimpleNamespace(spec=SimpleNamespace())
        answer = PlacementAnswer(reservation.placement.state, reservation.placement.node)
        OriginalPod.of(user_pod("eve", half, ready=False)).place(changed, answer)
        await start("eve", affinity=changed.spec.affinity)
        # A pod without a preferred node goes to the emptiest node.
        await start("bob")
        assert (world.node_of("eve"), world.node_of("bob")) == ("node-busy", "node-empty")
