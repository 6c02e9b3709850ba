"""Servers take over what placeholders keep, on a real kubelet: they always start, however slow anything is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from dra_spawner.dra.claims import AllocatedDevice
from dra_spawner.placeholders.planner.policy import ReplicaRange
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.simulator.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.world import PRIORITY_CLASS, PlaceholderWorld, at_work, shape
from tests.presence import present

from .devices import GPU_SHARE_CLASS
from .images import PAUSE, QUICK_SERVER
from .objects import claim_spec
from .real_node import RealNode

SHARE = {"gpu": claim_spec(GPU_SHARE_CLASS, memory="10Gi")}
#: Longest that anything but the driver and the volume may take here.
QUICK_SECONDS = 20.0


@dataclass
class Kept:
    """A place that is kept, on a node, with room beside it or not."""

    node: RealNode
    cluster: ClusterUnderTest
    world: PlaceholderWorld
    cpu: str
    placeholder: ObjectKey
    claim: str
    allocated: set[bool]

    @property
    def path(self) -> str:
        return f"{self.cluster.namespace}/{self.claim}"

    @property
    def claim_key(self) -> ObjectKey:
        return ObjectKey(self.cluster.namespace, self.claim)

    def share(self) -> AllocatedDevice:
        """What of which device the claim has at present."""
        (share,) = present(self.world.watch.snapshot.claims[self.claim_key].claim.status.devices)
        return share

    async def comes(self, name: str = "ada", **spec: Any) -> None:
        """The server's pod is created."""
        entries = {"gpu": self.claim}
        await self.world.named_user(name, entries, SHARE, cpu=self.cpu, image=QUICK_SERVER, **spec)

    async def until_gone(self, seconds: float = QUICK_SECONDS) -> None:
        await self.world.until(lambda: self.placeholder not in self.world.watch.snapshot.pods, seconds, "it goes")

    def methods(self) -> list[str]:
        """What the kubelet asked of the driver about the claim."""
        return [each.method for each in self.node.gpus.calls(claim=self.path)]


@contextlib.asynccontextmanager
async def placeholders(
    cluster: ClusterUnderTest, wanted: Shape, number: int = 1, **policy: Any
) -> AsyncIterator[PlaceholderWorld]:
    """Real decisions on the cluster: so many places of a shape are kept; `policy` is what of the policy is different."""
    await cluster.publish(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": PRIORITY_CLASS},
            "value": -10,
        }
    )
    async with at_work(cluster, (wanted, ReplicaRange(number, number)), image=PAUSE) as world:
        world.policy = replace(world.policy, **policy)
        yield world


@contextlib.asynccontextmanager
async def kept(node: RealNode, cluster: ClusterUnderTest, *, is_full: bool) -> AsyncIterator[Kept]:
    """A placeholder that runs on the node, and is promised to ada."""
    cores = int(node.node()["status"]["allocatable"]["cpu"])
    cpu = f"{cores * 600}m" if is_full else "100m"
    wanted = shape(SHARE, cpu=cpu, image=QUICK_SERVER)
    async with placeholders(cluster, wanted) as world:
        await world.until(lambda: any(each.pod.is_running for each in world.warm(wanted)), QUICK_SECONDS)
        reservation = await world.reservations.place(wanted, cluster.namespace, "ada")
        placeholder = present(reservation.placement.placeholder).key
        # No other one comes, whose devices a slow driver would be at work at in the end.
        readiness = replace(world.policy.readiness, settle=timedelta(seconds=1))
        world.policy = replace(world.policy, replicas={wanted.id: ReplicaRange(0, 0)}, readiness=readiness)
        place = Kept(node, cluster, world, cpu, placeholder, reservation.claims["gpu"], set())

        def note(_: object) -> None:
            tracked = world.watch.snapshot.claims.get(place.claim_key)
            if tracked is not None:
                place.allocated.add(tracked.claim.is_allocated)

        world.watch.on_change(note)
        yield place


async def test_beside_the_placeholder_nothing_waits_for_the_driver(node: RealNode, node_cluster: ClusterUnderTest):
    """And no kubelet undoes the preparation while the server joins."""
    async with kept(node, node_cluster, is_full=False) as place:
        await asyncio.to_thread(node.gpus.slow, prepare=300, unprepare=300)
        await place.comes()
        await node_cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        await place.until_gone()
        assert place.methods() == ["prepare"], "the placeholder's"
        assert place.allocated == {True}
        await asyncio.to_thread(node.gpus.slow, prepare=0, unprepare=0)


async def test_a_volume_that_comes_late(node: RealNode, node_cluster: ClusterUnderTest):
    """A home that takes long to attach; the kubelet prepares devices after that."""
    volume = {"name": "home", "configMap": {"name": "late"}}
    async with kept(node, node_cluster, is_full=False) as place:
        await asyncio.to_thread(node.gpus.slow, unprepare=3)
        await place.comes(volumes=[volume])
        await asyncio.sleep(12)
        assert place.placeholder in place.world.watch.snapshot.pods, "; ".join(
            f"{d.decision.kind} {d.decision.reason}" for d in place.world.decisions.newest(8)
        )
        await node_cluster.publish({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
        await node_cluster.wait_running("ada", timeout_seconds=60)
        await place.until_gone()
        assert place.methods() == ["prepare"]


async def test_on_a_full_node_it_is_prepared_anew(node: RealNode, node_cluster: ClusterUnderTest):
    """After it was undone: the two are never under way at the same time."""
    async with kept(node, node_cluster, is_full=True) as place:
        await asyncio.to_thread(node.gpus.slow, prepare=2, unprepare=2)
        began = time.monotonic()
        await place.comes()
        await node_cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        assert time.monotonic() - began < QUICK_SECONDS
        assert place.placeholder not in place.world.watch.snapshot.pods
        undone, done = node.gpus.calls(claim=place.path)[1:]
        assert (undone.method, done.method) == ("unprepare", "prepare")
        assert undone.ended <= done.began
        assert place.allocated == {True}, "never anybody's in between"


@pytest.mark.parametrize("is_full", [False, True], ids=["beside", "full"])
@pytest.mark.parametrize("what", ["kubelet", "driver", "reboot"])
async def test_what_restarts_in_the_middle(node: RealNode, node_cluster: ClusterUnderTest, what: str, is_full: bool):
    """When the server has its node and the driver is at work, or the placeholder is about to go."""
    async with kept(node, node_cluster, is_full=is_full) as place:
        await asyncio.to_thread(node.gpus.slow, prepare=1, unprepare=1)
        restart = {
            "kubelet": lambda: node.restart_kubelet(9),
            "driver": lambda: node.restart_driver(number=9),
            "reboot": node.reboot,
        }[what]
        await place.comes()
        await asyncio.sleep(0.3)
        await asyncio.to_thread(restart)
        await node_cluster.wait_running("ada", timeout_seconds=150)
        await place.until_gone(90)
        users = [
            pod
            for pod in place.world.watch.snapshot.pods.values()
            if place.claim in {each.claim for each in pod.claims}
        ]
        assert [pod.name for pod in users] == ["ada"]
