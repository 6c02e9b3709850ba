"""A real hub whose servers are containers on a real node: a quick server, and jupyterhub-singleuser."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import aiohttp

from dra_spawner.common.json_types import JsonObject
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.node.objects import environment
from tests.polling import PATIENCE_SECONDS, eventually

from .devices import GPU_SHARE_CLASS, SHARED_NODE
from .images import NOTEBOOK, QUICK_SERVER, notebook_volumes
from .real_node import RealNode

#: Answers of proxies while a server does not answer in time.
_NO_ANSWER = (502, 503, 504, 599)


def hub_on(node: RealNode, cluster: ClusterUnderTest, directory: Path, more_config: str) -> HubProcess:
    """A hub that containers of the node reach, with a share of a GPU for each server."""
    config = f"""
c.DRASpawner.image_pull_policy = "IfNotPresent"
c.DRASpawner.delete_grace_period = 1
c.DRASpawner.device_claims = {{
    "gpu": {{"device_class": {GPU_SHARE_CLASS!r}, "capacity": {{"memory": "10Gi"}}}}
}}
{more_config}
"""
    return HubProcess(directory, cluster.hub_kubeconfig, cluster.namespace, config, address=node.address)


async def pod_of(cluster: ClusterUnderTest, user: str) -> JsonObject:
    pods = await cluster.admin.list(cluster.path("pods"), label_selector=f"hub.jupyter.org/username={user}")
    (found,) = pods["items"]
    return found


def device_in(variables: dict[str, str]) -> str:
    (device,) = [value for name, value in variables.items() if name.startswith("DEVICE_")]
    return device


async def test_hub_starts_quick_servers_in_containers(node: RealNode, node_cluster: ClusterUnderTest, tmp_path: Path):
    config = f"c.DRASpawner.image = {QUICK_SERVER!r}\nc.DRASpawner.cmd = ['/quick-server']\n"
    async with hub_on(node, node_cluster, tmp_path / "hub", config) as hub:
        await hub.spawn("ada")
        await hub.until_ready("ada")
        found = await pod_of(node_cluster, "ada")
        assert found["spec"]["nodeName"] == node.name
        assert device_in(environment(found)).startswith(f"{node.pool(SHARED_NODE)}/")
        await hub.stop_server("ada")
    await node_cluster.wait_gone(node_cluster.path("resourceclaims"))


async def test_notebook_server_in_a_container_computes_with_its_device(
    node: RealNode, node_cluster: ClusterUnderTest, tmp_path: Path
):
    volumes, mounts = notebook_volumes()
    config = f"""
c.DRASpawner.image = {NOTEBOOK!r}
c.DRASpawner.cmd = [{f"{sys.prefix}/bin/jupyterhub-singleuser"!r}]
c.DRASpawner.uid = 1000
c.DRASpawner.volumes = {volumes!r}
c.DRASpawner.volume_mounts = {mounts!r}
c.DRASpawner.working_dir = "/home/jovyan"
c.DRASpawner.environment = {{"HOME": "/home/jovyan"}}
c.DRASpawner.http_timeout = 180
"""
    async with hub_on(node, node_cluster, tmp_path / "hub", config) as hub:
        await hub.spawn("ada")
        await hub.until_ready("ada", within_seconds=240)
        printed = await run_cell(
            hub, "ada", "import os; print(*(v for k, v in os.environ.items() if k[:7] == 'DEVICE_'))"
        )
        claims = await node_cluster.admin.list(node_cluster.path("resourceclaims"))
        (claim,) = claims["items"]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert printed.strip() == f"{result['pool']}/{result['device']}"


async def run_cell(hub: HubProcess, user: str, code: str) -> str:
    """The output of a cell in a new kernel of the user's server."""
    headers = {"Authorization": f"token {hub.token}"}
    server = f"{hub.url}/user/{user}/api/kernels"
    message = {
        "header": {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": user, "session": "test"},
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "content": {"code": code, "silent": False},
    }
    async with aiohttp.ClientSession(headers=headers) as session:

        async def begin() -> str | None:
            async with session.post(server, json={}) as answer:
                if answer.status in _NO_ANSWER:
                    return None
                assert answer.status == 201, await answer.text()
                return str((await answer.json())["id"])

        kernel = await eventually(begin, "the server begins a kernel")
        async with await connected(session, f"{server}/{kernel}/channels") as socket:
            await socket.send_json(message)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                received: dict[str, Any] = json.loads((await socket.receive(timeout=PATIENCE_SECONDS)).data)
                assert received["msg_type"] != "error", received
                if received["msg_type"] == "stream":
                    text: str = received["content"]["text"]
                    return text
    raise AssertionError("the cell printed nothing")


async def connected(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse:
    """A connection to a kernel; tried again, as browsers do, while the proxy has no answer of a busy server."""

    async def connect() -> aiohttp.ClientWebSocketResponse | None:
        try:
            return await session.ws_connect(url)
        except aiohttp.WSServerHandshakeError as error:
            if error.status not in _NO_ANSWER:
                raise
            return None

    return await eventually(connect, "the kernel answers")
