"""The service's web application without a hub before it: everybody may see and do all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dra_spawner import names
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.authentication import SecureHandler
from dra_spawner.service.http.limited_server import LimitedServer
from dra_spawner.service.http.web_application import web_application
from tests.local_server import serving_tornado


def open_to_all(handler: type[SecureHandler], user: str = "ada") -> type[SecureHandler]:
    """The handler for a user with all rights; rights are tested with a real hub (tests/integration/test_service.py)."""

    async def prepare(self: Any) -> None:
        self.hub_user = {"name": user, "scopes": [names.ADMIN_SCOPE]}

    return type(handler.__name__, (handler,), {"prepare": prepare})


@contextlib.asynccontextmanager
async def web_service(context: ServiceContext, *more: tuple[str, type[SecureHandler]]) -> AsyncIterator[str]:
    """The address of a web application with further handlers."""
    server = LimitedServer(web_application(context, cookie_secret=b"x" * 32, more=more))
    async with serving_tornado(server) as url:
        yield url
