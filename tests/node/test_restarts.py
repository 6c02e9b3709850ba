"""Restarts of the kubelet, of the container runtime and of the whole node."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from dra_spawner.common.json_types import JsonObject
from tests.cluster.under_test import ClusterUnderTest
from tests.node.objects import claim, container_ids, environment, server_pod

from .devices import GPU_SHARE_CLASS
from .real_node import RealNode


async def start_server(cluster: ClusterUnderTest, **options: object) -> JsonObject:
    await cluster.publish(claim("share", GPU_SHARE_CLASS, memory="5Gi"), server_pod("server", claim="share", **options))
    return await cluster.wait_running("server")


@pytest.mark.parametrize(
    "restart",
    [
        pytest.param(lambda node: node.restart_kubelet(signal.SIGTERM), id="kubelet stopped"),
        pytest.param(lambda node: node.restart_kubelet(signal.SIGKILL), id="kubelet killed"),
        pytest.param(lambda node: node.containerd.restart(), id="container runtime"),
    ],
)
async def test_pods_outlive_a_restart(
    node: RealNode, node_cluster: ClusterUnderTest, restart: Callable[[RealNode], None]
):
    before = await start_server(node_cluster)
    variables = environment(before)
    await asyncio.to_thread(restart, node)
    # A new pod shows that it works again; it joins the claim.
    await node_cluster.publish(server_pod("joining", claim="share"))
    joining = await node_cluster.wait_running("joining")
    after = await node_cluster.wait_for(node_cluster.path("pods", "server"))
    assert container_ids(after) == container_ids(before)
    assert environment(after)["DEVICE_MAIN"] == environment(joining)["DEVICE_MAIN"] == variables["DEVICE_MAIN"]
    assert node.gpus.calls("unprepare") == []


async def test_reboot_ends_containers_and_keeps_claims(node: RealNode, node_cluster: ClusterUnderTest):
    before = await start_server(node_cluster, restartPolicy="Always")
    allocated = await node_cluster.wait_for(node_cluster.path("resourceclaims", "share"))
    booted = node.node()["status"]["nodeInfo"]["bootID"]
    await asyncio.to_thread(node.reboot)
    assert node.node()["status"]["nodeInfo"]["bootID"] != booted
    path = node_cluster.path("pods", "server")
    await node_cluster.wait_for(path, lambda found: container_ids(found) != container_ids(before) and ready(found))
    after = await node_cluster.wait_running("server")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    claim_after = await node_cluster.wait_for(node_cluster.path("resourceclaims", "share"))
    assert claim_after["status"]["allocation"] == allocated["status"]["allocation"]
    assert environment(after)["DEVICE_MAIN"] == environment_of(allocated)
    # The driver's files were gone with the power.
    assert node.gpus.calls("prepare", f"{node_cluster.namespace}/share")


def uids(found: JsonObject) -> set[str]:
    return {each["metadata"]["uid"] for each in found["items"]}


def ready(found: JsonObject) -> bool:
    return all(status["ready"] for status in found["status"]["containerStatuses"])


def environment_of(allocated: JsonObject) -> str:
    (result,) = allocated["status"]["allocation"]["devices"]["results"]
    return f"{result['pool']}/{result['device']}"


async def test_kubelet_removes_slices_when_it_starts(node: RealNode, node_cluster: ClusterUnderTest):
    """Drivers publish new ones, usually after 30 s or more; a driver that is restarted does so at once."""
    slices = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{node.name}"
    before = await start_server(node_cluster)
    old = uids(await node_cluster.admin.list(slices))
    assert old
    await asyncio.to_thread(node.restart_kubelet)
    await node_cluster.wait_for(slices, lambda found: not old & uids(found))
    # The server keeps its device.
    claim_after = await node_cluster.wait_for(node_cluster.path("resourceclaims", "share"))
    assert environment(before)["DEVICE_MAIN"] == environment_of(claim_after)
    for name in node.drivers:
        await asyncio.to_thread(node.restart_driver, name)
    await asyncio.to_thread(node.wait_ready)
    assert (await node_cluster.admin.list("/apis/resource.k8s.io/v1/resourceslices"))["items"]
