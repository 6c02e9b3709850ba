"""A real node with its devices: what pods get, and what the control plane sees."""

from __future__ import annotations

import json
import urllib.request

from tests.cluster.under_test import ClusterUnderTest

from .devices import GPU_SHARE_CLASS, SHARED_NODE
from .objects import claim, server_pod
from .real_node import RealNode


def environment(pod: dict) -> dict[str, str]:
    """Of a quick server's container."""
    address = pod["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8888/", timeout=10) as answer:
        return json.load(answer)


async def test_pod_gets_a_share_of_a_gpu(node: RealNode, node_cluster: ClusterUnderTest):
    await node_cluster.publish(claim("share", GPU_SHARE_CLASS, memory="12Gi"), server_pod("server", claim="share"))
    pod = await node_cluster.wait_running("server")
    assert pod["spec"]["nodeName"] == node.name
    allocated = await node_cluster.wait_for(node_cluster.path("resourceclaims", "share"))
    (result,) = allocated["status"]["allocation"]["devices"]["results"]
    variables = environment(pod)
    assert variables["DEVICE_MAIN"] == f"{node.pool(SHARED_NODE)}/{result['device']}"
    assert variables["SHARE_MAIN"] == "memory=15Gi"
    assert variables["SHARE_ID_MAIN"] == result["shareID"]
