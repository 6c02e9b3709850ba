"""A real hub that manages the service as the shipped configuration says, and users of all kinds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.example_objects import gpu_class, gpu_slice, pod, share_template
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.integration.service_process import free_url
from tests.polling import eventually

CONFIG = Path(__file__).parents[2] / "jupyterhub_config.d" / "20-dra-spawner-service.py"
GROUPS = """
load_subconfig({config!r})
c.JupyterHub.services[-1]["url"] = {url!r}
c.JupyterHub.services[-1]["environment"]["POD_NAMESPACE"] = {namespace!r}
c.JupyterHub.services[-1]["api_token"] = "{token}service"
c.JupyterHub.services.append({{"name": "prometheus", "api_token": "{token}prometheus"}})
c.JupyterHub.load_roles.append({{"name": "prometheus", "services": ["prometheus"], "scopes": ["read:metrics"]}})
c.Authenticator.admin_users = {{"admin"}}
c.JupyterHub.load_groups = {{"gpu-watchers": {{"users": ["watcher"]}}, "gpu-operators": {{"users": ["operator"]}},
                              "gpu-admins": {{"users": ["manager"]}}, "gpu-teachers": {{"users": ["teacher"]}}}}
c.JupyterHub.load_roles[0]["scopes"].append("tokens")
"""
TOKEN = "0" * 32


class Service:
    """Requests to the service through the hub's proxy.

    Attributes
    ----------
    own_url
        Where it listens itself.
    """

    def __init__(self, hub: HubProcess, own_url: str = "") -> None:
        self.url = f"{hub.url}/services/dra-spawner/"
        self.own_url = own_url
        self.hub = hub

    async def get(
        self, path: str, token: str = "", method: str = "GET", data: str | None = None, **headers: str
    ) -> tuple[int, Any, Any]:
        """Status, headers and body."""
        if token:
            headers["Authorization"] = f"token {token}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, data=data, headers=headers, allow_redirects=False) as answer,
        ):
            text = await answer.text()
            is_json = answer.content_type in ("application/json", "application/problem+json")
            return answer.status, answer.headers, json.loads(text) if is_json and text else text

    async def ready(self) -> None:
        """Wait until it is ready and, as the leader, has decided: before, it takes no orders for placeholders."""

        async def is_ready() -> bool:
            return (await self.get("readyz"))[0] == 200

        async def has_decided() -> bool:
            status, _, metrics = await self.get("metrics", TOKEN + "prometheus")
            return status == 200 and bool(re.search(r"^dra_spawner_decision_age_seconds \d", metrics, re.M))

        await eventually(is_ready, "the service is ready")
        await eventually(has_decided, "metrics show a round of decisions")

    def kill(self) -> None:
        """End the service at once; its hub starts it again."""
        hub = self.hub.process.pid
        for child in Path(f"/proc/{hub}/task/{hub}/children").read_text().split():
            if b"dra_spawner" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)

    async def token(self, user: str) -> str:
        status, body = await self.hub.request("POST", f"/users/{user}/tokens", {})
        assert status == 201, body
        return str(body["token"])


@contextlib.asynccontextmanager
async def hub_with_service(
    cluster: ClusterUnderTest, settings: str = "", hub_settings: str = ""
) -> AsyncIterator[Service]:
    """The service of a hub, with the settings of a configuration file; a pod with a share of a GPU is there."""
    (cluster.directory / "hub").mkdir(parents=True, exist_ok=True)
    (cluster.directory / "hub" / "dra_spawner_service_config.py").write_text(settings)
    await cluster.start_kubelet(fake=True)
    node = {"metadata": {"name": "n1", "labels": {"karpenter.sh/nodepool": "gpus"}}, "kind": "Node", "apiVersion": "v1"}
    await cluster.publish(node, gpu_slice("n1"), gpu_class(), share_template("t", "10Gi"))
    await cluster.publish(pod("p", ["true"], template="t"))
    await cluster.wait_running("p")
    url = free_url()
    more = GROUPS.format(config=str(CONFIG), url=url, namespace=cluster.namespace, token=TOKEN)
    async with HubProcess(
        cluster.directory / "hub", cluster.hub_kubeconfig, cluster.namespace, more + hub_settings
    ) as hub:
        for user in ("admin", "watcher", "operator", "manager", "teacher", "user", "other"):
            await hub.add_user(user)
        yield Service(hub, url)


async def log_in(session: aiohttp.ClientSession, url: str, user: str, password: str = "") -> None:
    async with session.get(f"{url}/hub/login") as page:
        xsrf = re.search(r'name="_xsrf"\s+value="([^"]+)"', await page.text())
        assert xsrf is not None
    form = {"username": user, "password": password, "_xsrf": xsrf[1]}
    async with session.post(f"{url}/hub/login", data=form, allow_redirects=False) as answer:
        assert answer.status == 302, await answer.text()
