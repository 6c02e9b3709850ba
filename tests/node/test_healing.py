"""Servers that a real kubelet and a real driver do not get to run are made again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from jupyterhub.user import User

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import LEFT_BEHIND
from tests.spawner.hub_side import HubSide, end_hub_side, kubernetes_of

from .devices import GPU_SHARE_CLASS
from .images import PAUSE, QUICK_SERVER
from .objects import claim, pod
from .real_node import RealNode

pytestmark = pytest.mark.timeout(180)

SERVER = "jupyter-ada"


@pytest.fixture
async def hub(node: RealNode, node_cluster: ClusterUnderTest) -> AsyncIterator[HubSide]:
    """A hub's side whose servers run on the node, with a share of a GPU each."""
    with kubernetes_of(node_cluster.hub_kubeconfig):
        side = HubSide(node_cluster.hub_kubeconfig, node_cluster.namespace)
        config = side.spawner_config
        config.image = QUICK_SERVER
        config.start_timeout = 90
        config.heal_after_seconds = 3
        config.device_claims = {"gpu": {"device_class": GPU_SHARE_CLASS, "capacity": {"memory": "10Gi"}}}
        try:
            yield side
        finally:
            await end_hub_side()


async def start(user: User) -> BaseException | None:
    try:
        await user.spawn("", {})
    except Exception as error:
        return error
    return None


async def until_said(user: User, text: str) -> None:
    async with asyncio.timeout(60):
        while not any(text in event["message"] for event in user.spawner.events):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def device_of(cluster: ClusterUnderTest) -> tuple[str, str]:
    """Pool and device of the only claim, once it has them."""

    def results(found: dict[str, Any]) -> list[Any]:
        return [each for each in found["items"] if each.get("status", {}).get("allocation")]

    found = await cluster.wait_for(cluster.path("resourceclaims"), lambda found: bool(results(found)))
    (result,) = results(found)[0]["status"]["allocation"]["devices"]["results"]
    return result["pool"], result["device"]


def prepared(node: RealNode, cluster: ClusterUnderTest) -> set[str]:
    """UIDs of this test's claims that the driver was to prepare."""
    return {call.uid for call in node.gpus.calls("prepare") if call.claim.startswith(f"{cluster.namespace}/")}


async def nothing_is_left(cluster: ClusterUnderTest) -> None:
    for plural in LEFT_BEHIND:
        await cluster.wait_gone(cluster.path(plural), timeout_seconds=30)


async def test_a_driver_that_fails_once(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    node.gpus.fail(prepare="the device does not answer")
    ada = hub.user("ada")
    starting = asyncio.create_task(start(ada))
    _, device = await device_of(node_cluster)
    await until_said(ada, f"Node {node.name} could not make device {device}")
    node.gpus.fail(prepare="")
    assert await starting is None
    assert len(prepared(node, node_cluster)) == 2
    assert (await node_cluster.wait_running(SERVER))["spec"]["nodeName"] == node.name
    await ada.stop("")
    await nothing_is_left(node_cluster)


async def test_a_driver_that_fails_always(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    node.gpus.fail(prepare="the device does not answer")
    ada = hub.user("ada")
    starting = asyncio.create_task(start(ada))
    pool, device = await device_of(node_cluster)
    error = str(await starting)
    failed = f"Node {node.name} could not make device {device} of {pool} ready for this server."
    assert error.startswith(f"This server was made twice and did not start. First: {failed} Then: Node {node.name} ")
    await nothing_is_left(node_cluster)


async def test_a_slow_driver_is_waited_for(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    """Longer than the limit; nothing fails."""
    node.gpus.slow(prepare=8.0)
    ada = hub.user("ada")
    assert await start(ada) is None
    assert len(prepared(node, node_cluster)) == 1
    await ada.stop("")
    await nothing_is_left(node_cluster)


async def test_a_claim_that_the_kubelet_loses(hub: HubSide, node: RealNode, node_cluster: ClusterUnderTest):
    """The pod comes while the driver takes the claim back from the last one; without help it never starts."""
    await node_cluster.publish(claim("theirs", GPU_SHARE_CLASS, memory="10Gi"), pod("last", claim="theirs"))
    await node_cluster.wait_running("last")
    node.gpus.slow(unprepare=4.0)
    config = hub.spawner_config
    config.device_claims = {"gpu": {"claim": "theirs", "containers": {"side": ["main"]}}}
    # The container with the device is made when the driver is done.
    config.extra_containers = [{"name": "side", "image": PAUSE}]
    config.lifecycle_hooks = {"postStart": {"sleep": {"seconds": 7}}}
    await node_cluster.admin.delete(node_cluster.path("pods", "last"))
    await asyncio.to_thread(node.gpus.wait_call, "unprepare", f"{node_cluster.namespace}/theirs")
    ada = hub.user("ada")
    assert await start(ada) is None
    assert any(f"Node {node.name} lost track of device" in event["message"] for event in ada.spawner.events)
    assert len(prepared(node, node_cluster)) == 1
    await ada.stop("")
    await node_cluster.admin.delete(node_cluster.path("resourceclaims", "theirs"))
    await nothing_is_left(node_cluster)
