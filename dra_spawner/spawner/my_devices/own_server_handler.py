"""The base of handlers that answer a server, which proves itself by its own token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.user import User
from tornado.web import HTTPError

from dra_spawner.spawner.devices.reader import Reading
from dra_spawner.spawner.hub_parts.hub_handlers import QuietHandler
from dra_spawner.spawner.server_context import ServerContext, parts_of

if TYPE_CHECKING:
    from dra_spawner.spawner.my_devices.own_devices import OwnDevices
    from dra_spawner.spawner.progress.activity_report import ActivityReport
    from dra_spawner.spawner.progress.session_time import SessionTime

#: The right of a server's own token, for that server.
_ACCESS: Final = "access:servers"

_NOBODY: Final = "This needs the token of a server (JUPYTERHUB_API_TOKEN)."
_NO_SERVER: Final = (
    "This token is not of one server of its owner. The token that JupyterHub gives to a server has the"
    " scope access:servers!server."
)


class _Home(Protocol):
    report: ActivityReport | None

    def session(self) -> SessionTime | None:
        """The lifetime of the running server; None without a limit."""

    def kept_note(self) -> str:
        """Until when the running server is kept although it is idle; empty if its user has not asked for it."""


class OwnParts(Protocol):
    """As far as these handlers look at the parts of a spawner."""

    server: ServerContext
    home: _Home
    own_devices: Reading[OwnDevices] | None


class OwnServerHandler(QuietHandler, APIHandler):
    """Login cookies are not accepted, so no page can ask on a user's behalf."""

    _accept_cookie_auth = False

    def _record_activity(self, obj: Any, timestamp: Any = None) -> bool:
        # A panel that is open, and a report, are no activity of the user.
        return False

    def own_parts(self) -> OwnParts:
        """The parts of the spawner of the token's server.

        Raises
        ------
        HTTPError
            403 without a valid token, or with another token than that of a server of its owner.
        """
        user: Any = self.current_user
        if user is None:
            raise HTTPError(403, _NOBODY)
        owner, _, server = self.server_name().partition("/")
        # A token for a server that another user shares is no reason to tell that user's devices.
        if not isinstance(user, User) or owner != user.name or server not in user.orm_spawners:
            raise HTTPError(403, _NO_SERVER)
        parts: OwnParts | None = parts_of(user.spawners[server])
        if parts is None:
            raise HTTPError(404)
        return parts

    def server_name(self) -> str:
        """User and server that the token has access to, as ``user/server``; empty unless it is one server."""
        access = self.parsed_scopes.get(_ACCESS)
        if not isinstance(access, dict) or set(access) != {"server"} or len(access["server"]) != 1:
            return ""
        return str(next(iter(access["server"])))
