"""What is left at a demo after `dra-spawner try`, and a choice that cannot work there."""

from __future__ import annotations

import aiohttp

from dra_spawner.devcluster.demo import demo
from dra_spawner.kube.client.api import KubernetesApi

__all__ = ["BROKEN", "NOTHING", "left"]

#: The hub asks for a device of a class that no driver publishes.
BROKEN = {
    "display_name": "Broken",
    "slug": "broken",
    "kubespawner_override": {"device_claims": {"gpu": {"device_class": "none.example.com"}}},
}


async def left(running: demo.Running) -> tuple[list[str], list[str]]:
    """Users, with their servers, and pods of servers."""
    headers = {"Authorization": f"token {running.api_token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{running.address}/hub/api/users") as answer,
    ):
        users = [f"{each['name']}{sorted(each['servers'] or {})}" for each in await answer.json()]
    async with await KubernetesApi.from_kubeconfig(running.kubeconfig) as api:
        pods = await api.list("/api/v1/namespaces/default/pods")
    names = [each["metadata"]["name"] for each in pods["items"]]
    return users, [each for each in names if each.startswith("jupyter-")]


NOTHING: tuple[list[str], list[str]] = (["admin[]", "teacher[]"], [])
