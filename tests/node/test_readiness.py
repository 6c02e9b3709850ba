"""The label that servers require of a node, against a real kubelet: it stays where servers run, and nowhere else in vain.

A node where a server could not start, without the image or without devices, never has it. Servers that come
meanwhile stay pending, and none is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from dra_spawner import names
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.targets.policy import Readiness
from tests.cluster.control_plane import ControlPlane
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import shape
from tests.placeholders.controller.world import PlaceholderWorld

from .images import PAUSE, QUICK_SERVER, program_image
from .machine import Machine
from .node_binaries import NodeBinaries
from .objects import is_unschedulable, pod
from .real_node import NodeOptions, RealNode
from .reserved_placeholders import SHARE, placeholders, reserved_placeholder, until_decided

WANTED = shape(SHARE, cpu="100m", image=QUICK_SERVER)
#: Images and devices that come back count soon. Not at once, as a driver publishes its pools one after another: while the
#: second is incomplete, the label goes again, and the kubelet rejects a server that the first has brought to the node.
SOON = Readiness(settle=timedelta(seconds=5))
#: The kubelet lists its images every 30 s, and withdraws the slices of a driver that is away for 30 s.
KUBELET_SECONDS = 120.0


@dataclass
class Watched:
    """A node's label while decisions are made."""

    node: RealNode
    cluster: ClusterUnderTest
    world: PlaceholderWorld

    @property
    def label(self) -> str | None:
        state = self.world.watch.snapshot.nodes.get(self.node.name)
        return state.node.labels.get(names.IMAGES_READY) if state is not None else None

    async def until_label(self, value: str | None) -> None:
        await self.world.until(lambda: self.label == value, KUBELET_SECONDS, f"label {value}")

    async def server_stays_pending(self, name: str, unless: Callable[[], bool] = lambda: False) -> None:
        """A new server cannot start now: it stays pending, and the label stays away.

        Parameters
        ----------
        unless
            Whether the missing image or devices have come back by themselves meanwhile.
        """
        await self.world.user(name, SHARE, cpu="100m", image=QUICK_SERVER)
        path = self.cluster.path("pods", name)
        await self.cluster.wait_for(path, lambda found: "nodeName" in found["spec"] or is_unschedulable(found))
        await until_decided(self.world)
        is_labelled = self.label is not None
        found = await self.cluster.wait_for(path)
        if is_labelled or "nodeName" in found["spec"]:
            assert await asyncio.to_thread(unless), f"label {self.label}, on {found['spec'].get('nodeName')}"

    async def server_runs(self, name: str) -> None:
        await self.cluster.wait_running(name, timeout_seconds=KUBELET_SECONDS)
        await self.until_label(names.TRUE)


@contextlib.asynccontextmanager
async def watched(node: RealNode, cluster: ClusterUnderTest, number: int = 0) -> AsyncIterator[Watched]:
    """A node that is ready for users."""
    async with placeholders(cluster, WANTED, number, readiness=SOON) as world:
        found = Watched(node, cluster, world)
        # An earlier test leaves the label, and devices that go before the first decision are never missed.
        await until_decided(world)
        await found.until_label(names.TRUE)
        yield found


async def test_an_image_is_removed_and_comes_back(
    node: RealNode, node_cluster: ClusterUnderTest, binaries: NodeBinaries, tmp_path: Path
):
    async with watched(node, node_cluster) as watched_node:
        archive = program_image(tmp_path / "image.tar", QUICK_SERVER, binaries["quick-server"])
        await asyncio.to_thread(node.containerd.remove_image, QUICK_SERVER)
        try:
            await watched_node.until_label(None)
            await watched_node.server_stays_pending("ada")
        finally:
            await asyncio.to_thread(node.containerd.import_image, archive)
        await watched_node.server_runs("ada")


async def test_more_images_than_the_node_lists(
    node_cluster: ClusterUnderTest, node_plane: ControlPlane, binaries: NodeBinaries, machine: Machine, tmp_path: Path
):
    """As with more than 50 usually. A puller that runs shows that its image is there."""
    options = NodeOptions(kubelet={"nodeStatusMaxImages": 1})
    crowded = RealNode(node_plane, binaries, machine, tmp_path / "node", options=options)
    wanted = shape({}, cpu="100m", image=PAUSE)
    try:
        await asyncio.to_thread(crowded.start)
        async with placeholders(node_cluster, wanted, 0, readiness=SOON) as world:
            watched_node = Watched(crowded, node_cluster, world)
            found = await node_cluster.wait_for(
                f"/api/v1/nodes/{crowded.name}", lambda found: "images" in found["status"]
            )
            listed = {name for image in found["status"]["images"] for name in image["names"]}
            assert PAUSE not in listed
            await world.until(lambda: crowded.name in world.watch.snapshot.nodes)
            await until_decided(world)
            assert watched_node.label is None, "the image may not be there"
            puller = pod("puller", image=PAUSE, nodeName=crowded.name)
            puller["metadata"]["labels"] = {names.COMPONENT: "continuous-image-puller"}
            await node_cluster.publish(puller)
            await watched_node.until_label(names.TRUE)
            assert (await node_cluster.wait_for(node_cluster.path("pods", "puller")))["status"]["phase"] == "Running"
            await node_cluster.admin.delete(node_cluster.path("pods", "puller"))
            await watched_node.until_label(None)
            await node_cluster.wait_gone(node_cluster.path("pods", "puller"))
    finally:
        await asyncio.to_thread(crowded.stop)


def restart_drivers(node: RealNode) -> None:
    """Restart all drivers, which then publish at once."""
    for name in node.drivers:
        node.restart_driver(name)


@pytest.mark.parametrize(
    ("away", "back"),
    [
        pytest.param(lambda node: node.gpus.withdraw(), lambda node: node.gpus.publish(), id="withdrawn"),
        pytest.param(
            lambda node: node.stop_driver(number=signal.SIGKILL), lambda node: node.start_driver(), id="killed"
        ),
        pytest.param(lambda node: node.restart_kubelet(), restart_drivers, id="kubelet"),
    ],
)
async def test_devices_are_away_and_come_back(
    node: RealNode,
    node_cluster: ClusterUnderTest,
    away: Callable[[RealNode], None],
    back: Callable[[RealNode], None],
):
    async with watched(node, node_cluster) as watched_node:
        await asyncio.to_thread(away, node)
        await watched_node.until_label(None)
        # 30 s after a restart of the kubelet, drivers publish again by themselves.
        await watched_node.server_stays_pending("ada", unless=node.has_slices)
        await asyncio.to_thread(back, node)
        await watched_node.server_runs("ada")


async def test_a_server_comes_while_the_kubelet_is_away(node: RealNode, node_cluster: ClusterUnderTest):
    """The scheduler does not notice; the kubelet withdraws the slices when it is back, and admits the server."""
    async with watched(node, node_cluster) as watched_node:
        await asyncio.to_thread(node.stop_kubelet)
        await watched_node.world.user("ada", SHARE, cpu="100m", image=QUICK_SERVER)
        created = await node_cluster.wait_for(
            node_cluster.path("pods", "ada"), lambda found: "nodeName" in found["spec"]
        )
        # The label may have the value for a few seconds only.
        seen = set[str | None]()
        watched_node.world.watch.on_change(lambda _: seen.add(watched_node.label))
        is_late = watched_node.world.until(lambda: names.LATE in seen, KUBELET_SECONDS, f"label {names.LATE}")
        await asyncio.gather(is_late, asyncio.to_thread(node.start_kubelet))
        running = await node_cluster.wait_running("ada", timeout_seconds=KUBELET_SECONDS)
        assert running["metadata"]["uid"] == created["metadata"]["uid"]
        await asyncio.to_thread(restart_drivers, node)
        await watched_node.until_label(names.TRUE)


async def test_a_placeholder_on_a_cordoned_node_is_reserved_for_no_server(
    node: RealNode, node_cluster: ClusterUnderTest
):
    async with watched(node, node_cluster, 1) as watched_node:
        world, path = watched_node.world, f"/api/v1/nodes/{node.name}"
        await world.until(lambda: bool(world.warm(WANTED)))
        nodes = world.watch.snapshot.nodes
        await node_cluster.admin.patch(path, {"spec": {"unschedulable": True}})
        try:
            await world.until(lambda: nodes[node.name].node.is_unschedulable)
            reservation = await world.reservations.place(WANTED, node_cluster.namespace, "ada")
            assert reservation.placement.state is AvailabilityState.WAITS
            assert not reservation.claims
        finally:
            await node_cluster.admin.patch(path, {"spec": {"unschedulable": None}})
        await world.until(lambda: not nodes[node.name].node.is_unschedulable)
        await world.until(lambda: bool(world.warm(WANTED)))
        reservation = await world.placed_user("ada", WANTED, SHARE, cpu="100m", image=QUICK_SERVER)
        assert reservation.placement.state is AvailabilityState.READY
        await node_cluster.wait_running("ada")


async def test_a_server_outlives_missing_devices_of_its_node(node: RealNode, node_cluster: ClusterUnderTest):
    """A restarted kubelet checks running pods anew, and ends a pod that requires a label that is gone."""
    async with reserved_placeholder(node, node_cluster, is_full=False) as reserved:
        await reserved.create_server()
        started = await node_cluster.wait_running("ada")
        await reserved.until_gone()
        state = reserved.world.watch.snapshot.nodes
        await asyncio.to_thread(node.gpus.withdraw)
        await reserved.world.until(lambda: state[node.name].node.labels.get(names.IMAGES_READY) == names.LATE)
        for _ in range(2):
            await asyncio.to_thread(node.restart_kubelet)
        pod = await node_cluster.wait_running("ada")
        assert pod["metadata"]["uid"] == started["metadata"]["uid"]
        (before,), (now,) = started["status"]["containerStatuses"], pod["status"]["containerStatuses"]
        assert now["containerID"] == before["containerID"], "the container was never ended"


async def test_a_server_on_a_drained_node_outlives_its_kubelet(node: RealNode, node_cluster: ClusterUnderTest):
    """The order refuses new servers by required affinity, which a restarted kubelet also asks of those that run."""
    async with watched(node, node_cluster) as watched_node:
        world = watched_node.world
        mark = secrets.token_hex(5)
        await world.user("ada", SHARE, cpu="100m", image=QUICK_SERVER, mark=mark)
        started = await node_cluster.wait_running("ada", timeout_seconds=KUBELET_SECONDS)
        nodes = world.watch.snapshot.nodes
        world.policy = replace(world.policy, drained={node.name: "set by user ada: repair"})
        world.reconciler.wake()
        await world.until(
            lambda: names.DRAIN_SPARES_PREFIX + mark in nodes[node.name].node.labels, what="its servers are spared"
        )
        for _ in range(2):
            await asyncio.to_thread(node.restart_kubelet)
        await world.user("bob", SHARE, cpu="100m", image=QUICK_SERVER, mark=secrets.token_hex(5))
        path = node_cluster.path("pods", "bob")
        pending = await node_cluster.wait_for(
            path, lambda found: "nodeName" in found["spec"] or is_unschedulable(found)
        )
        assert "nodeName" not in pending["spec"]
        pod = await node_cluster.wait_running("ada")
        assert pod["metadata"]["uid"] == started["metadata"]["uid"]
        (before,), (after,) = started["status"]["containerStatuses"], pod["status"]["containerStatuses"]
        assert after["containerID"] == before["containerID"], "the container was never ended"
        world.policy = replace(world.policy, drained={})
        world.reconciler.wake()
        await world.until(
            lambda: names.DRAIN_SPARES_PREFIX + mark not in nodes[node.name].node.labels, what="the order is over"
        )
