"""The clock of a node is compared with the API server's by the two times of a kubelet's report."""

from __future__ import annotations

import time

from dra_spawner.doctor.node_clocks import NodeClock, node_clock
from dra_spawner.kube.client.api import PatchType, resource_path
from tests.cluster.under_test import ClusterUnderTest
from tests.doctor.objects import NOW, node, reporting, time_text


def test_both_times_are_of_one_report() -> None:
    assert node_clock(reporting("a", -20)) == NodeClock("a", -20, NOW - 60)


def test_reports_of_other_programs_are_no_clocks() -> None:
    assert node_clock(reporting("a", -20, manager="k3s")) is None
    assert node_clock(node("a")) is None
    broken = reporting("a", 0)
    broken["status"]["conditions"][1]["lastHeartbeatTime"] = None
    assert node_clock(broken) is None


async def test_the_api_server_notes_the_time_of_each_report(real_cluster: ClusterUnderTest) -> None:
    """Also when nothing but times of the conditions change, and when another program writes in between."""
    api, path = real_cluster.admin, resource_path("v1", "nodes", name=f"{real_cluster.namespace}-clock")
    # Managed fields are not tracked of an object that begins without any.
    metadata = {"name": path.rpartition("/")[2], "labels": {"a": "b"}}
    await api.create(path.rpartition("/")[0], {"metadata": metadata})

    async def report(heartbeat: float, status: str = "True", manager: str = "kubelet") -> None:
        ready = {"type": "Ready", "status": status, "lastHeartbeatTime": time_text(heartbeat)}
        body = {"status": {"conditions": [ready]}}
        written_by = {"fieldManager": manager}
        await api.patch(f"{path}/status", body, patch_type=PatchType.STRATEGIC, params=written_by)

    try:
        await report(1e9)
        begin = time.time()
        await report(begin + 120)
        # Its node is taken for lost.
        await report(begin + 120, "Unknown", "kube-controller-manager")
        found = node_clock(await api.get(path))
    finally:
        await api.delete(path)
    assert found is not None
    assert 120 - (time.time() - begin) - 1 <= found.ahead_seconds <= 121
