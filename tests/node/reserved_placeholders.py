"""Placeholders on a real node, and one that is reserved."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from dra_spawner.dra.model.claims import AllocatedDevice
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import priority_class
from tests.placeholders.controller.objects import shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work
from tests.polling import PATIENCE_SECONDS
from tests.presence import present

from .devices import GPU_SHARE_CLASS
from .images import PAUSE, QUICK_SERVER
from .objects import claim_spec
from .real_node import RealNode

SHARE = {"gpu": claim_spec(GPU_SHARE_CLASS, memory="10Gi")}
#: Limit of all steps that wait neither for the driver nor for the volume.
QUICK_SECONDS = PATIENCE_SECONDS


@dataclass
class ReservedPlaceholder:
    """A reserved placeholder on a node; the server may fit beside it or not."""

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
        """The device, or the share of it, that the claim has at present."""
        (share,) = present(self.world.watch.snapshot.claims[self.claim_key].claim.status.devices)
        return share

    async def create_server(self, name: str = "ada", **spec: Any) -> None:
        """Create the server's pod."""
        entries = {"gpu": self.claim}
        await self.world.named_user(name, entries, SHARE, cpu=self.cpu, image=QUICK_SERVER, **spec)

    async def until_gone(self, seconds: float = QUICK_SECONDS) -> None:
        await self.world.until(
            lambda: self.placeholder not in self.world.watch.snapshot.pods, seconds, "the placeholder is gone"
        )

    def methods(self) -> list[str]:
        """Methods that the kubelet called at the driver for the claim."""
        return [each.method for each in self.node.gpus.calls(claim=self.path)]


async def until_decided(world: PlaceholderWorld) -> None:
    """Wait for two rounds of decisions: the first one may have begun before now."""
    for _ in range(2):
        before = world.decisions.decided_at
        world.reconciler.wake()
        await world.until(partial(_is_decided_after, world, before), what="it is decided anew")


def _is_decided_after(world: PlaceholderWorld, before: datetime | None) -> bool:
    return world.decisions.decided_at != before


@contextlib.asynccontextmanager
async def placeholders(
    cluster: ClusterUnderTest, wanted: Shape, number: int = 1, **policy: Any
) -> AsyncIterator[PlaceholderWorld]:
    """Real decisions on the cluster, with `number` placeholders of a shape; `policy` changes fields of the policy."""
    await cluster.publish(priority_class())
    async with at_work(cluster, (wanted, ReplicaRange(number, number)), image=PAUSE) as world:
        world.policy = replace(world.policy, **policy)
        yield world


@contextlib.asynccontextmanager
async def reserved_placeholder(
    node: RealNode, cluster: ClusterUnderTest, *, is_full: bool
) -> AsyncIterator[ReservedPlaceholder]:
    """A placeholder that runs on the node, and is reserved for ada."""
    cores = int(node.node()["status"]["allocatable"]["cpu"])
    cpu = f"{cores * 600}m" if is_full else "100m"
    wanted = shape(SHARE, cpu=cpu, image=QUICK_SERVER)
    async with placeholders(cluster, wanted) as world:
        await world.until(lambda: any(each.pod.is_running for each in world.warm(wanted)), QUICK_SECONDS)
        reservation = await world.reservations.place(wanted, cluster.namespace, "ada")
        placeholder = present(reservation.placement.placeholder).key
        # No other placeholder is created; a slow driver would still prepare its devices at the end.
        # A driver publishes its pools one after another, see test_readiness.py.
        readiness = replace(world.policy.readiness, settle=timedelta(seconds=5))
        world.policy = replace(world.policy, replicas={wanted.id: ReplicaRange(0, 0)}, readiness=readiness)
        reserved = ReservedPlaceholder(node, cluster, world, cpu, placeholder, reservation.claims["gpu"], set())

        def note(_: object) -> None:
            tracked = world.watch.snapshot.claims.get(reserved.claim_key)
            if tracked is not None:
                reserved.allocated.add(tracked.claim.is_allocated)

        world.watch.on_change(note)
        yield reserved
