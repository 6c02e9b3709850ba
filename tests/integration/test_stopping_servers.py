"""An administrator stops a user's server by the service, which passes the administrator's own token on to the hub."""

from __future__ import annotations

from typing import Any

import aiohttp
import jupyterhub
import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_with_service import Service, hub_with_service, log_in
from tests.polling import eventually

SETTINGS = """
c.DRASpawnerService.placeholders = {"gpu": {"min": 0, "max": 1}}
"""


#: The hub answers soon that a server is on its way.
SOON = """
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 1}
"""
#: JupyterHub gives an interrupted start one second to end, and then fails.
SLOW_CLEAN_UP = """
import asyncio
import pytest
from dra_spawner.spawner.spawner import DRASpawner
class SlowCleanUp(DRASpawner):
    async def start(self):
        try:
            return await super().start()
        finally:
            await asyncio.sleep(3)
c.JupyterHub.spawner_class = SlowCleanUp
"""


async def pending(service: Service) -> Any:
    """The hub's pending action on the user's server."""
    _, model = await service.hub.request("GET", "/users/user", None)
    return model["pending"]


async def statuses_of_browser(service: Service, user: str) -> set[int]:
    """Of the page's requests to stop the server, one for each XSRF cookie; one of these is the service's."""
    jar = aiohttp.CookieJar(unsafe=True)
    found = set()
    async with aiohttp.ClientSession(cookie_jar=jar, headers={"Sec-Fetch-Site": "same-origin"}) as session:
        await log_in(session, service.hub.url, user)
        async with session.get(service.url, headers={"Sec-Fetch-Mode": "navigate"}) as page:
            assert page.status == 200
        for token in [each.value for each in jar if each.key == "_xsrf"]:
            async with session.delete(f"{service.url}api/servers/user", params={"_xsrf": token}) as answer:
                found.add(answer.status)
    return found - {401}


@pytest.mark.promise("A user can stop a server that is still starting.")
async def test_a_start_that_takes_its_time_to_clean_up_is_stopped(embedded_cluster: ClusterUnderTest) -> None:
    async with hub_with_service(embedded_cluster, SETTINGS, SOON + SLOW_CLEAN_UP) as service:
        await service.ready()
        started, _ = await service.hub.request("POST", "/users/user/server", {"profile": "gpu-whole"})
        assert started in (201, 202)
        status, _, body = await service.get("api/servers/user", await service.token("admin"), "DELETE")
        assert status == 202, (body, service.hub.log.read_text()[-6000:])

        async def is_stopped() -> bool:
            return await pending(service) is None

        await eventually(is_stopped, "it is stopped")


async def test_a_server_is_stopped_with_the_rights_of_the_caller(embedded_cluster: ClusterUnderTest) -> None:
    async with hub_with_service(embedded_cluster, SETTINGS, SOON) as service:
        await service.ready()
        started, _ = await service.hub.request("POST", "/users/user/server", {"profile": "gpu-whole"})
        assert started in (201, 202)

        async def is_starting() -> bool:
            return await pending(service) == "spawn"

        await eventually(is_starting, "the server starts; it never answers here")
        # `user` may stop this server at the hub, and nothing here.
        for user, status in (("watcher", 403), ("operator", 403), ("user", 403), ("other", 403)):
            found, _, body = await service.get("api/servers/user", await service.token(user), "DELETE")
            assert found == status, (user, body)
            assert await pending(service) == "spawn"
        # A browser of an administrator of the service that does not administer the hub.
        assert await statuses_of_browser(service, "watcher") == {403}
        assert await pending(service) == "spawn"
        by_browser = await statuses_of_browser(service, "manager")
        assert 202 in by_browser, service.hub.log.read_text()[-6000:]

        async def is_stopped() -> bool:
            return await pending(service) is None

        await eventually(is_stopped, "it is stopped")
        admin = await service.token("admin")
        # A hub before 6 fails itself for a user that it does not know.
        unknown = 404 if jupyterhub.version_info >= (6,) else 502
        for path, expected in (("nobody", unknown), ("user?server=x", 404), ("..%2Fadmin", 404), ("..", 404)):
            status, _, body = await service.get(f"api/servers/{path}", admin, "DELETE")
            assert status == expected, (path, body)
        _, _, audit = await service.get("api/audit", admin)
        changes = [(each["by"], each["change"], each["subject"], each["details"]) for each in audit["items"]]
        assert ("user manager", "stop server", "user/", "") in changes
        assert ("user admin", "stop server", "user/x") in [each[:3] for each in changes if "not done: " in each[3]]
        assert admin not in service.hub.log.read_text()
