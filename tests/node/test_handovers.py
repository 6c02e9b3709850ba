"""Handovers on a real kubelet: servers get warm claims, and always start, however slow anything is."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.node.reserved_placeholders import QUICK_SECONDS, reserved_placeholder, until_decided

from .real_node import RealNode


async def test_beside_the_placeholder_nothing_waits_for_the_driver(node: RealNode, node_cluster: ClusterUnderTest):
    """The kubelet does not undo the preparation while the server starts."""
    async with reserved_placeholder(node, node_cluster, is_full=False) as reserved:
        await asyncio.to_thread(node.gpus.slow, prepare=300, unprepare=300)
        await reserved.create_server()
        await node_cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        await reserved.until_gone()
        assert reserved.methods() == ["prepare"], "only for the placeholder"
        assert reserved.allocated == {True}
        await asyncio.to_thread(node.gpus.slow, prepare=0, unprepare=0)


async def test_a_volume_that_comes_late(node: RealNode, node_cluster: ClusterUnderTest):
    """A home that takes long to attach; the kubelet prepares devices after that."""
    volume = {"name": "home", "configMap": {"name": "late"}}
    async with reserved_placeholder(node, node_cluster, is_full=False) as reserved:
        await asyncio.to_thread(node.gpus.slow, unprepare=3)
        await reserved.create_server(volumes=[volume])
        await node_cluster.wait_event("ada", "FailedMount")
        await until_decided(reserved.world)
        assert reserved.placeholder in reserved.world.watch.snapshot.pods, "; ".join(
            f"{d.decision.kind} {d.decision.reason}" for d in reserved.world.decisions.newest(8)
        )
        await node_cluster.publish({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
        await node_cluster.wait_running("ada")
        await reserved.until_gone()
        assert reserved.methods() == ["prepare"]


async def test_on_a_full_node_the_claim_is_prepared_anew(node: RealNode, node_cluster: ClusterUnderTest):
    """The kubelet unprepares the claim first: the two calls never overlap."""
    async with reserved_placeholder(node, node_cluster, is_full=True) as reserved:
        await asyncio.to_thread(node.gpus.slow, prepare=2, unprepare=2)
        await reserved.create_server()
        await node_cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        await reserved.until_gone()
        undone, done = node.gpus.calls(claim=reserved.path)[1:]
        assert (undone.method, done.method) == ("unprepare", "prepare")
        assert undone.ended <= done.began
        assert reserved.allocated == {True}, "the claim stays allocated"


@pytest.mark.parametrize("is_full", [False, True], ids=["beside", "full"])
@pytest.mark.parametrize("restarted", ["kubelet", "driver", "reboot"])
async def test_a_restart_in_the_middle_of_a_handover(
    node: RealNode, node_cluster: ClusterUnderTest, restarted: str, is_full: bool
):
    """The server has its node, or the driver is at work for it."""
    async with reserved_placeholder(node, node_cluster, is_full=is_full) as reserved:
        await asyncio.to_thread(node.gpus.slow, prepare=1, unprepare=1)
        restart = {
            "kubelet": lambda: node.restart_kubelet(9),
            "driver": lambda: node.restart_driver(number=9),
            "reboot": node.reboot,
        }[restarted]
        await reserved.create_server()
        if is_full:
            await asyncio.to_thread(node.gpus.wait_call, "unprepare", reserved.path)
        else:
            await node_cluster.wait_for(node_cluster.path("pods", "ada"), lambda found: "nodeName" in found["spec"])
        await asyncio.to_thread(restart)
        await node_cluster.wait_running("ada", timeout_seconds=150)
        await reserved.until_gone(90)
        users = [
            pod
            for pod in reserved.world.watch.snapshot.pods.values()
            if reserved.claim in {each.claim for each in pod.claims}
        ]
        assert [pod.name for pod in users] == ["ada"]
