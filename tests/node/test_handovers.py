"""Servers take over what placeholders keep, on a real kubelet: they always start, however slow anything is."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.node.kept_placeholders import QUICK_SECONDS, kept

from .real_node import RealNode


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
