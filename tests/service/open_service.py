"""The service's web application without a hub before it: everybody may see and do all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from dra_spawner import names
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.addresses import pattern_of
from dra_spawner.service.http.requests.authentication import SecureHandler
from dra_spawner.service.http.requests.limited_server import LimitedServer
from dra_spawner.service.http.web_application import ADDRESSES, web_application
from tests.local_server import serving_tornado


def open_to_all(handler: type[SecureHandler], user: str = "ada", scope: str = names.ADMIN_SCOPE) -> type[SecureHandler]:
    """The handler for a user with a scope; rights are tested with a real hub (tests/integration/test_service.py)."""

    async def prepare(self: Any) -> None:
        self.hub_user = {"name": user, "scopes": [scope]}

    return type(handler.__name__, (handler,), {"prepare": prepare})


@contextlib.asynccontextmanager
async def web_service(context: ServiceContext, *more: tuple[str, type[SecureHandler]]) -> AsyncIterator[str]:
    """The address of a web application with further handlers."""
    server = LimitedServer(web_application(context, cookie_secret=b"x" * 32, more=more))
    async with serving_tornado(server) as url:
        yield url


@contextlib.asynccontextmanager
async def whole_service(context: ServiceContext, scope: str = names.ADMIN_SCOPE) -> AsyncIterator[str]:
    """The address of a web application all of whose addresses are open."""
    application = web_application(context, cookie_secret=b"x" * 32)
    prefix, arguments = context.web.prefix, {"context": context}
    rules = [(prefix + pattern_of(address), open_to_all(each, "ada", scope), arguments) for address, each in ADDRESSES]
    application.add_handlers(".*", rules)
    async with serving_tornado(LimitedServer(application)) as url:
        yield url + prefix
