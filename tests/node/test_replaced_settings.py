"""Another image for placeholders on a real node: what the kubelet cannot pull goes at once, what runs when the new one runs."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from dra_spawner.placeholders.planner.cluster.placeholder import is_proven
from dra_spawner.placeholders.planner.targets.policy import ReplicaRange
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import priority_class
from tests.placeholders.controller.objects import shape
from tests.placeholders.controller.world import PlaceholderWorld, at_work

from .images import PAUSE, QUICK_SERVER
from .real_node import RealNode
from .reserved_placeholders import SHARE

WANTED = shape(SHARE, cpu="100m", image=QUICK_SERVER)
MISSING = "images.test/none:1"


def running(world: PlaceholderWorld) -> dict[str, str]:
    """Image of each placeholder that runs, by its uid."""
    return {each.pod.uid: each.pod.images[0] for each in world.warm(WANTED) if is_proven(each.pod)}


def service(cluster: ClusterUnderTest, image: str) -> AbstractAsyncContextManager[PlaceholderWorld]:
    """The service with an image; a change is a restart."""
    return at_work(cluster, (WANTED, ReplicaRange(2, 4)), image=image, placeholder_image=image)


async def test_present_placeholders_get_another_image(node: RealNode, node_cluster: ClusterUnderTest) -> None:
    await node_cluster.publish(priority_class())
    async with service(node_cluster, MISSING) as world:
        waiting = "the kubelet says that it cannot pull the image"
        await world.until(
            lambda: sum(bool(each.pod.waits_because) for each in world.reconciler.view().placeholders.values()) == 2,
            what=waiting,
        )
    async with service(node_cluster, PAUSE) as world:
        await world.until(
            lambda: [*running(world).values()] == [PAUSE, PAUSE], what="those that did not run are replaced"
        )
        first = running(world)
    fewest = 2
    async with service(node_cluster, QUICK_SERVER) as world:
        await world.until(lambda: first.items() <= running(world).items(), what="the service knows them")

        def is_replaced() -> bool:
            nonlocal fewest
            fewest = min(fewest, len(running(world)))
            pods = world.watch.snapshot.pods.values()
            gone = not first.keys() & {each.uid for each in pods}
            return gone and [*running(world).values()] == [QUICK_SERVER, QUICK_SERVER]

        await world.until(is_replaced, what="those that ran are replaced")
        assert fewest == 2, "each runs until the new one does"
    calls = await asyncio.to_thread(node.gpus.calls)
    prepared, undone = ({each.claim for each in calls if each.method == method} for method in ("prepare", "unprepare"))
    assert len(prepared & undone) >= 2, "the driver has taken back the devices of both old placeholders"
