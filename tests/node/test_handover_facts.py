"""The kubelet and a claim that passes from one pod to another: the facts on which the handover relies."""

from __future__ import annotations

import asyncio

from tests.cluster.under_test import ClusterUnderTest

from .devices import GPU_SHARE_CLASS
from .images import PAUSE
from .objects import claim, environment, pod, server_pod
from .real_node import RealNode


async def add_consumer(cluster: ClusterUnderTest, name: str, consumer: str) -> None:
    """Enter a pod into a claim's ``status.reservedFor``, as the scheduler does when it binds the pod."""
    found = await cluster.wait_for(cluster.path("pods", consumer))
    entry = {"resource": "pods", "name": consumer, "uid": found["metadata"]["uid"]}
    status = (await cluster.wait_for(cluster.path("resourceclaims", name)))["status"]
    patch = {"status": {"reservedFor": [*status["reservedFor"], entry]}}
    await cluster.admin.patch(cluster.path("resourceclaims", name, "status"), patch)


async def bind(cluster: ClusterUnderTest, name: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await cluster.admin.create(cluster.path("pods", name, "binding"), binding)


async def test_pod_that_joins_a_claim_in_use_does_not_wait_for_the_driver(
    node: RealNode, node_cluster: ClusterUnderTest
):
    await node_cluster.publish(claim("share", GPU_SHARE_CLASS, memory="5Gi"), server_pod("first", claim="share"))
    first = environment(await node_cluster.wait_running("first"))
    # Far longer than a pod is waited for.
    node.gpus.slow(prepare=300)
    await node_cluster.publish(server_pod("second", claim="share"))
    second = environment(await node_cluster.wait_running("second"))
    assert second["SHARE_ID_MAIN"] == first["SHARE_ID_MAIN"]
    assert len(node.gpus.calls("prepare")) == 1

    # The device stays prepared when the first pod is gone.
    await node_cluster.admin.delete(node_cluster.path("pods", "first"))
    await node_cluster.wait_gone(node_cluster.path("pods", "first"))
    assert node.gpus.calls("unprepare") == []
    assert environment(await node_cluster.wait_running("second")) == second


async def test_pod_that_joins_while_the_claim_is_unprepared(node: RealNode, node_cluster: ClusterUnderTest):
    """Fact 5 of the design: up to Kubernetes 1.36 it never starts, so the handover must never let this happen."""
    await node_cluster.publish(claim("share", GPU_SHARE_CLASS, memory="5Gi"), pod("first", claim="share"))
    await node_cluster.wait_running("first")
    second = pod("second", claim="share", schedulerName="by-hand")
    # The containers start when the claim is unprepared.
    second["spec"]["initContainers"] = [{"name": "wait", "image": PAUSE, "args": ["--for", "60s"]}]
    await node_cluster.publish(second)
    await add_consumer(node_cluster, "share", "second")
    node.gpus.slow(unprepare=40)  # the kubelet waits for 45
    await node_cluster.admin.delete(node_cluster.path("pods", "first"))
    await asyncio.to_thread(node.gpus.wait_call, "unprepare")
    await bind(node_cluster, "second", node.name)
    if node_cluster.kubernetes >= (1, 37):
        await node_cluster.wait_running("second")
        assert len(node.gpus.calls("prepare")) == 2
        return

    def is_stuck(found: dict) -> bool:
        statuses = found["status"].get("containerStatuses") or []
        return any(
            each["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError"
            and "unable to get claim info" in each["state"]["waiting"]["message"]
            for each in statuses
        )

    await node_cluster.wait_for(node_cluster.path("pods", "second"), is_stuck)
    assert len(node.gpus.calls("prepare")) == 1
    await node_cluster.wait_for(
        node_cluster.path("resourceclaims", "share"),
        lambda found: [each["name"] for each in found["status"]["reservedFor"]] == ["second"],
    )
