"""The label that servers require of a node, against a real kubelet: it stays where servers run, and nowhere else in vain."""

from __future__ import annotations

import asyncio

from dra_spawner.headroom import labels
from tests.cluster.under_test import ClusterUnderTest

from .real_node import RealNode
from .test_handovers import kept


async def test_a_server_outlives_what_its_node_lacks(node: RealNode, node_cluster: ClusterUnderTest):
    """A kubelet that restarts looks at all its pods anew, running ones too: whoever requires a label that is gone ends."""
    async with kept(node, node_cluster, is_full=False) as place:
        await place.comes()
        started = await node_cluster.wait_running("ada")
        await place.until_gone()
        state = place.world.watch.snapshot.nodes
        await asyncio.to_thread(node.gpus.withdraw)
        await place.world.until(lambda: state[node.name].node.labels.get(labels.IMAGES_READY) == labels.LATE)
        for _ in range(2):
            await asyncio.to_thread(node.restart_kubelet)
        pod = await node_cluster.wait_running("ada")
        assert pod["metadata"]["uid"] == started["metadata"]["uid"]
        (before,), (now,) = started["status"]["containerStatuses"], pod["status"]["containerStatuses"]
        assert now["containerID"] == before["containerID"], "it was never ended"
