"""The API server is away for a minute in the middle of a handover: no server is lost, and no device is used twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.control_plane import ControlPlane
from tests.cluster.under_test import ClusterUnderTest

from .objects import environment
from .real_node import RealNode
from .reserved_placeholders import reserved_placeholder

#: Longer than a client of the API server waits for an answer: all requests under way fail.
AWAY_SECONDS = 60.0
#: Requests under way fail by then, and their callers try again.
BACK_SECONDS = 150.0


async def be_away(plane: ControlPlane) -> float:
    """Stop all of the control plane for a while; the time of its return, as of `time.time`."""
    pids = plane.pids().values()
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(AWAY_SECONDS)
        return time.time()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("is_full", [False, True], ids=["beside", "full"])
async def test_the_api_server_is_away_in_the_middle(
    node: RealNode, node_cluster: ClusterUnderTest, node_plane: ControlPlane, is_full: bool
):
    """The outage begins when the server has its node, or when the placeholder is deleted."""
    async with reserved_placeholder(node, node_cluster, is_full=is_full) as reserved:
        # The outage begins before the driver is done.
        await asyncio.to_thread(node.gpus.slow, prepare=5, unprepare=20)
        world, pods = reserved.world, reserved.world.watch.snapshot.pods
        key, share = ObjectKey(node_cluster.namespace, "ada"), reserved.share()
        await reserved.create_server()
        if is_full:
            await world.until(lambda: pods[reserved.placeholder].is_deleted, what="the placeholder goes")
        else:
            await world.until(lambda: key in pods and bool(pods[key].node_name), what="the server has its node")
        assert not pods[key].is_running
        returned = await be_away(node_plane)
        await world.until(lambda: key in pods and pods[key].is_running, BACK_SECONDS, "the server runs")
        running = await node_cluster.wait_running("ada")
        await reserved.until_gone(BACK_SECONDS)
        if is_full:
            first, undone, done = node.gpus.calls(claim=reserved.path)
            assert [first.method, undone.method, done.method] == ["prepare", "unprepare", "prepare"]
            assert undone.ended <= done.began
            assert undone.ended < returned < done.began, "the outage was between the two calls"
        else:
            assert reserved.methods() == ["prepare"]
            assert reserved.allocated == {True}
            assert reserved.share() == share
        # On a full node, a binding that fails makes kube-scheduler give the claim back, and nobody can write then: it
        # may be allocated anew.
        assert environment(running)["SHARE_ID_MAIN"] == reserved.share().share_id
        claims = world.watch.snapshot.claims
        await world.until(
            lambda: [each.uid for each in claims[reserved.claim_key].consumers] == [pods[key].uid],
            what="the server alone uses the claim",
        )
