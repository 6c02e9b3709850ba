"""“I still need it”: a user keeps a server that is about to be stopped for being idle.

``POST {hub}/dra-spawner/keep``: from JupyterLab, with the server's own token. ``POST {hub}/dra-spawner/keep-form``:
from the hub's page, with the user's login.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from jupyterhub.utils import url_path_join
from tornado import web

from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.idle_devices.idle_notes import idle_note, notice_of_pod
from dra_spawner.spawner.my_devices.own_server_handler import OwnServerHandler
from dra_spawner.spawner.placement.service import service_of_hub
from dra_spawner.spawner.placement.service_address import whole_body
from dra_spawner.spawner.server_context import ServerContext, parts_of

_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**16
_LONGEST_SENTENCE: Final = 300
_FAILED: Final = "This could not be noted. Try again in a moment, or run a cell."


class NotKept(Exception):
    """Raised if a server is not kept; the message is a sentence for its user."""


class KeepHandler(OwnServerHandler):
    """See the module."""

    async def post(self) -> None:
        """Keep the server of the token."""
        self.set_header("Cache-Control", "no-store")
        server = self.own_parts().server
        try:
            await keep_server(server)
        except NotKept as error:
            raise web.HTTPError(409, str(error)) from None
        self.finish({"version": 1, "idle": None})


class KeepFormHandler(QuietHandler):
    """See the module."""

    @web.authenticated
    async def post(self) -> None:
        """Keep a server of the user who is logged in, and show the hub's page again."""
        user: Any = self.current_user
        if getattr(self, "_token_authenticated", False):
            raise web.HTTPError(403, "This is for a page of the hub.")
        name = self.get_body_argument("server", "")
        parts = parts_of(user.spawners[name]) if name in user.orm_spawners else None
        if parts is None:
            raise web.HTTPError(404, "You have no such server.")
        try:
            await keep_server(parts.server)
        except NotKept as error:
            raise web.HTTPError(409, str(error)) from None
        self.redirect(url_path_join(self.hub.base_url, "home"))


async def keep_server(server: ServerContext) -> None:
    """Tell the service that a server is still needed.

    Raises
    ------
    NotKept
    """
    if idle_note(notice_of_pod(server.pod()), datetime.now(UTC)) is None:
        raise NotKept("This server is not about to be stopped.")
    spawner = server.spawner
    address = service_of_hub(spawner.placeholder_service, spawner.placeholder_service_ca_file)
    if address is None:
        raise NotKept(_FAILED)
    question = {"namespace": server.spawner.namespace, "pod": server.spawner.pod_name}
    try:
        async with (
            asyncio.timeout(_SECONDS),
            address.ask("POST", "api/idle-servers/keep", json=question) as response,
        ):
            status, body = response.status, await whole_body(response, _MAX_BYTES)
    except (OSError, aiohttp.ClientError, TimeoutError) as error:
        server.log.warning("An idle server is not kept: pod=%s %r", server.pod_key, error)
        raise NotKept(_FAILED) from None
    if status == 200:
        return
    server.log.warning("An idle server is not kept: pod=%s status=%s", server.pod_key, status)
    raise NotKept(_sentence(body) if status == 409 else _FAILED)


def _sentence(body: bytes) -> str:
    """The service's own sentence for the user."""
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, RecursionError, LookupError, TypeError):
        detail = None
    return detail[:_LONGEST_SENTENCE] if isinstance(detail, str) and detail.isprintable() else _FAILED
