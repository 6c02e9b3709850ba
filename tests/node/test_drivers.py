"""Drivers that fail, restart, or are away."""

from __future__ import annotations

import asyncio
import signal

from tests.cluster.under_test import ClusterUnderTest

from .devices import GPU_DRIVER, GPU_SHARE_CLASS, SHARED_NODE
from .objects import claim, container_ids, environment, server_pod
from .real_node import RealNode


async def publish_server(cluster: ClusterUnderTest, name: str = "server") -> None:
    await cluster.publish(
        claim(f"{name}-share", GPU_SHARE_CLASS, memory="5Gi"), server_pod(name, claim=f"{name}-share")
    )


async def test_claim_is_unprepared_when_its_last_pod_is_gone(node: RealNode, node_cluster: ClusterUnderTest):
    await publish_server(node_cluster)
    await node_cluster.wait_running("server")
    found = await node_cluster.wait_for(node_cluster.path("resourceclaims", "server-share"))
    assert node.gpus.state().prepared == [found["metadata"]["uid"]]
    node.gpus.slow(unprepare=(0.5, 0.6))
    await node_cluster.admin.delete(node_cluster.path("pods", "server"))
    call = await asyncio.to_thread(
        node.gpus.wait_call, "unprepare", f"{node_cluster.namespace}/server-share", ended=True
    )
    assert 0.5 <= call.ended - call.began < 30
    assert node.gpus.state().prepared == []
    await node_cluster.wait_gone(node_cluster.path("pods", "server"))


async def test_failing_preparation_is_an_event_and_is_tried_again(node: RealNode, node_cluster: ClusterUnderTest):
    node.gpus.fail(prepare="no firmware")
    await publish_server(node_cluster)
    event = await node_cluster.wait_event("server", "FailedPrepareDynamicResources", text="no firmware")
    assert "server-share" in event["message"]
    node.gpus.fail(prepare="")
    await node_cluster.wait_running("server")
    errors = [call.error for call in node.gpus.calls("prepare", f"{node_cluster.namespace}/server-share")]
    assert errors[0] == "no firmware"
    assert errors[-1] == ""


async def test_one_broken_device_leaves_the_others_usable(node: RealNode, node_cluster: ClusterUnderTest):
    broken, other = (f"{node.pool(SHARED_NODE)}/gpu-{index}" for index in range(2))
    node.gpus.fail(prepare={broken: "double bit error"})
    servers = {"gpu-0": "pci0000:10", "gpu-1": "pci0000:11"}
    for name, root in servers.items():
        cel = f'device.attributes["resource.kubernetes.io"].pcieRoot == "{root}"'
        await node_cluster.publish(claim(name, GPU_SHARE_CLASS, cel=cel, memory="5Gi"), server_pod(name, claim=name))
    await node_cluster.wait_event("gpu-0", "FailedPrepareDynamicResources", text="double bit error")
    assert environment(await node_cluster.wait_running("gpu-1"))["DEVICE_MAIN"] == other


async def test_failing_unpreparation_keeps_the_pod_until_it_succeeds(node: RealNode, node_cluster: ClusterUnderTest):
    await publish_server(node_cluster)
    await node_cluster.wait_running("server")
    node.gpus.fail(unprepare="still busy")
    await node_cluster.admin.delete(node_cluster.path("pods", "server"))
    call = await asyncio.to_thread(node.gpus.wait_call, "unprepare", ended=True)
    assert call.error == "still busy"
    assert (await node_cluster.wait_for(node_cluster.path("pods", "server")))["metadata"]["deletionTimestamp"]
    node.gpus.fail(unprepare="")
    await node_cluster.wait_gone(node_cluster.path("pods", "server"))
    assert node.gpus.state().prepared == []


async def test_driver_restart_leaves_pods_and_serves_new_ones(node: RealNode, node_cluster: ClusterUnderTest):
    await publish_server(node_cluster)
    before = await node_cluster.wait_running("server")
    prepared = node.gpus.state().prepared
    await asyncio.to_thread(node.restart_driver, GPU_DRIVER, signal.SIGKILL)
    assert node.gpus.state().prepared == prepared
    await publish_server(node_cluster, "another")
    await node_cluster.wait_running("another")
    after = await node_cluster.wait_for(node_cluster.path("pods", "server"))
    assert container_ids(after) == container_ids(before)
    assert node.gpus.calls("unprepare") == []


async def test_pod_waits_for_a_driver_that_is_away(node: RealNode, node_cluster: ClusterUnderTest):
    await asyncio.to_thread(node.stop_driver)
    await publish_server(node_cluster)
    await node_cluster.wait_event("server", "FailedPrepareDynamicResources", text=GPU_DRIVER)
    await asyncio.to_thread(node.start_driver)
    await node_cluster.wait_running("server")
