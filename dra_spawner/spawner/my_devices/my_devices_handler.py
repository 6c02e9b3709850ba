"""``GET {hub}/dra-spawner/devices``: the devices of the server whose own token comes with the request.

Which server that is follows from the token alone. The request has no parameters.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, Protocol

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.user import User
from tornado.web import HTTPError

from dra_spawner.kube.client.api import KubernetesError
from dra_spawner.spawner.devices.reader import Reading
from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.my_devices.my_devices_reader import read_own_devices
from dra_spawner.spawner.my_devices.own_devices import OwnDevices
from dra_spawner.spawner.placement.standing import own_budget_sentences
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.server_context import ServerContext, parts_of

__all__ = ["DevicesHandler"]

#: The right of a server's own token, for that server.
_ACCESS: Final = "access:servers"
_WAIT_SECONDS: Final = 3.0
#: Maximum age of the devices that a server is told; a server may ask as often as it likes.
_LONGEST_AGE_SECONDS: Final = 2.0

_NOBODY: Final = "This needs the token of a server (JUPYTERHUB_API_TOKEN)."
_NO_SERVER: Final = (
    "This token is not of one server of its owner. The token that JupyterHub gives to a server has the"
    " scope access:servers!server."
)
_NOT_KNOWN: Final = "The devices of this server are not known at present."


class _Home(Protocol):
    def session(self) -> SessionTime | None:
        """The lifetime of the running server; None without a limit."""


class _Parts(Protocol):
    """As far as this module looks at the parts of a spawner."""

    server: ServerContext
    home: _Home
    own_devices: Reading[OwnDevices] | None


class DevicesHandler(QuietHandler, APIHandler):
    """Answers a server; login cookies are not accepted, so no page can ask on a user's behalf."""

    _accept_cookie_auth = False

    def _record_activity(self, obj: Any, timestamp: Any = None) -> bool:
        # A panel that is open is no activity of its user.
        return False

    async def get(self) -> None:
        """Write the answer as JSON."""
        self.set_header("Cache-Control", "no-store")
        parts = self._parts()
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                found = await _own_devices(parts)
        except (KubernetesError, TimeoutError) as error:
            self.log.warning("The devices of a server are not told: server=%s %r", self._server_name(), error)
            found = None
        except Exception:  # whatever is in a claim that others made
            self.log.exception("The devices of a server are not told: server=%s", self._server_name())
            found = None
        if found is None:
            raise HTTPError(503, _NOT_KNOWN)
        session = parts.home.session()
        spawner = parts.server.spawner
        use = await own_budget_sentences(
            spawner.placeholder_service, spawner.user.name, parts.server.user_groups, self.log
        )
        end = session.as_json() if session is not None else {}
        self.finish({**found.as_json(), **end, **({"use": use} if use else {})})

    def _parts(self) -> _Parts:
        """The parts of the spawner of the token's server.

        Raises
        ------
        HTTPError
            403 without a valid token, or with another token than that of a server of its owner.
        """
        user: Any = self.current_user
        if user is None:
            raise HTTPError(403, _NOBODY)
        owner, _, server = self._server_name().partition("/")
        # A token for a server that another user shares is no reason to tell that user's devices.
        if not isinstance(user, User) or owner != user.name or server not in user.orm_spawners:
            raise HTTPError(403, _NO_SERVER)
        parts: _Parts | None = parts_of(user.spawners[server])
        if parts is None:
            raise HTTPError(404)
        return parts

    def _server_name(self) -> str:
        """User and server that the token has access to, as ``user/server``; empty unless it is one server."""
        access = self.parsed_scopes.get(_ACCESS)
        if not isinstance(access, dict) or set(access) != {"server"} or len(access["server"]) != 1:
            return ""
        return str(next(iter(access["server"])))


async def _own_devices(parts: _Parts) -> OwnDevices | None:
    """The devices of a running server; None if the hub does not see its pod.

    Raises
    ------
    KubernetesError
        If they cannot be read.
    """
    if not parts.server.pod():
        return None
    return await devices_of_server(parts).get(_LONGEST_AGE_SECONDS)


def devices_of_server(parts: _Parts) -> Reading[OwnDevices]:
    """What reads the devices of a server, one for the server's life."""
    if parts.own_devices is None:
        parts.own_devices = Reading(partial(_read, parts.server))
    return parts.own_devices


async def _read(server: ServerContext) -> OwnDevices:
    pod = server.pod()
    return await read_own_devices(server.kubernetes, pod) if pod else OwnDevices()
