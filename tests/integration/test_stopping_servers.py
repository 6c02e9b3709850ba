"""An administrator stops a user's server by the service, which passes the administrator's own token on to the hub."""

from __future__ import annotations

from typing import Any

import jupyterhub
import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.hub_with_service import Service, hub_with_service
from tests.polling import eventually

SETTINGS = """
c.DRASpawnerService.placeholders = {"gpu": {"min": 0, "max": 1}}
"""


async def pending(service: Service) -> Any:
    """What the hub is doing about the user's server."""
    _, model = await service.hub.request("GET", "/users/user", None)
    return model["pending"]


@pytest.mark.timeout(180)
async def test_a_server_is_stopped_with_the_rights_of_the_caller(embedded_cluster: ClusterUnderTest) -> None:
    async with hub_with_service(embedded_cluster, SETTINGS) as service:
        await service.ready()
        started, _ = await service.hub.request("POST", "/users/user/server", {"profile": "gpu-whole"})
        assert started in (201, 202)

        async def is_starting() -> bool:
            return await pending(service) == "spawn"

        await eventually(is_starting, "the server starts; it never answers here")
        # `manager` has the scope of the service's administrators, and no right at the hub.
        for user, status in (("watcher", 403), ("operator", 403), ("manager", 404)):
            found, _, body = await service.get("api/servers/user", await service.token(user), "DELETE")
            assert found == status, (user, body)
            assert await pending(service) == "spawn"
        admin = await service.token("admin")
        status, _, body = await service.get("api/servers/user", admin, "DELETE")
        assert (status, body) == (202, {"subject": "user/", "order": "stop server"})

        async def is_stopped() -> bool:
            return await pending(service) is None

        await eventually(is_stopped, "it is stopped")
        # A hub before 6 fails itself for a user that it does not know.
        unknown = 404 if jupyterhub.version_info >= (6,) else 502
        for path, expected in (("nobody", unknown), ("user?server=x", 404), ("..%2Fadmin", 404), ("..", 404)):
            status, _, body = await service.get(f"api/servers/{path}", admin, "DELETE")
            assert status == expected, (path, body)
        _, _, audit = await service.get("api/audit", admin)
        assert ("user admin", "stop server", "user/") in [
            (each["by"], each["change"], each["subject"]) for each in audit["items"]
        ]
        assert admin not in service.hub.log.read_text()
