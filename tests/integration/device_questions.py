"""Questions to a hub about a server's own devices."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_process import HubProcess
from tests.polling import eventually

Answer = tuple[int, Any]


async def ask(
    hub: HubProcess, token: str = "", query: str = "", session: aiohttp.ClientSession | None = None
) -> Answer:
    """Status, and the answer or the message."""
    headers = {"Authorization": f"token {token}"} if token else {}
    async with aiohttp.ClientSession() as own:
        address = f"{hub.url}/hub/dra-spawner/devices{query}"
        async with (session or own).get(address, headers=headers, allow_redirects=False) as answer:
            body = json.loads(await answer.text())
            return answer.status, body if answer.status == 200 else body["message"]


async def told(hub: HubProcess, token: str, query: str = "") -> Answer:
    """The answer when all is known: a busy hub or cluster says less at first."""

    async def known() -> Answer | None:
        status, body = await ask(hub, token, query)
        return (status, body) if status == 200 and all(each["product"] for each in body["devices"]) else None

    answer: Answer = await eventually(known, "the hub knows the devices")
    return answer


async def server_tokens(cluster: ClusterUnderTest) -> dict[str, str]:
    """Tokens of the servers, by the name of their pod."""
    pods = (await cluster.admin.list(cluster.path("pods")))["items"]
    return {
        pod["metadata"]["name"]: variable["value"]
        for pod in pods
        for variable in pod["spec"]["containers"][0].get("env") or ()
        if variable["name"] == "JUPYTERHUB_API_TOKEN"
    }


async def new_token(hub: HubProcess, user: str, **body: Any) -> str:
    """A token of a user."""
    status, answer = await hub.request("POST", f"/users/{user}/tokens", body)
    assert status == 201, answer
    return str(answer["token"])
