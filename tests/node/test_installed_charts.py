"""Both charts as an administrator installs them, and users' servers in containers of a real node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from tests.chart.hub_release import HubRelease
from tests.chart.hub_use import assert_nothing_was_refused, use
from tests.chart.whole_cluster import WholeCluster, whole_cluster
from tests.cluster.background import BackgroundLoop

from .devices import SHARED_NODE
from .images import PAUSE, QUICK_SERVER
from .machine import Machine
from .node_binaries import NodeBinaries
from .real_node import NodeOptions, RealNode

#: As zero-to-jupyterhub documents it: users' servers and placeholders tolerate it, hub and service do not.
_FOR_USERS: Final = {"key": "hub.jupyter.org/dedicated", "value": "user", "effect": "NoSchedule"}
_IMAGE, _, _TAG = QUICK_SERVER.partition(":")
_SERVERS: Final[JsonObject] = {
    "singleuser": {"image": {"name": _IMAGE, "tag": _TAG, "pullPolicy": "IfNotPresent"}, "cmd": ["/quick-server"]}
}


@pytest.fixture
def cluster(
    binaries: NodeBinaries, background_loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WholeCluster]:
    """A cluster whose hub and service are processes of this machine."""
    directory = tmp_path_factory.mktemp("whole")
    with whole_cluster(binaries.harness, background_loop, directory, has_gpu_nodes=False) as found:
        yield found


@pytest.fixture
def gpu_node(cluster: WholeCluster, binaries: NodeBinaries, machine: Machine, tmp_path: Path) -> Iterator[RealNode]:
    """Its node with GPUs."""
    options = NodeOptions(kubelet={"registerWithTaints": [_FOR_USERS]})
    with RealNode(cluster.plane, binaries, machine, tmp_path / "node", options=options) as found:
        yield found


def test_login_form_warm_start_page_stop(cluster: WholeCluster, gpu_node: RealNode) -> None:
    service = {"config": {"placeholder_image": PAUSE}}
    hub = HubRelease(cluster, "teaching", values={"service": service}, hub_values=_SERVERS)

    async def install_and_use() -> dict[str, str]:
        await cluster.api.create(resource_path("v1", "namespaces"), {"metadata": {"name": hub.namespace}})
        await hub.install()
        return await use(hub, node=gpu_node.name)

    environment = cluster.run(install_and_use)
    (device,) = [value for name, value in environment.items() if name.startswith("DEVICE_")]
    assert device.startswith(f"{gpu_node.pool(SHARED_NODE)}/")
    assert_nothing_was_refused(hub)
    cluster.run(hub.remove)
