"""What the caller of a page may do, so that pages show only actions that the service would accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tornado.escape import to_unicode

from dra_spawner.service.http.authentication import PageHandler, scopes_of
from dra_spawner.service.http.endpoints import Access

__all__ = ["PageCaller", "page_caller"]

#: JupyterHub's scope, which the hub checks when the service passes the caller's token on.
_STOP_SERVERS: Final = "delete:servers"


@dataclass(frozen=True, slots=True)
class PageCaller:
    """The caller of a page. `actions.html` has the dialog for callers with rights.

    Attributes
    ----------
    may_operate, may_admin
        Whether endpoints with `Access.OPERATE`, and with `Access.ADMIN`, accept changes by this page.
    may_stop_servers
        Whether the hub may also let the caller stop servers; with a filter in the scope it decides for each server.
    xsrf
        Token that changes need; empty without rights.
    """

    name: str
    may_operate: bool = False
    may_admin: bool = False
    may_stop_servers: bool = False
    xsrf: str = ""


def page_caller(handler: PageHandler) -> PageCaller:
    """The caller of a page. A caller with a token in the header, or without a hub, gets no actions."""
    user, auth = handler.hub_user, handler.web.hub_auth
    if auth is None or handler.request.headers.get("Authorization"):
        return PageCaller(user["name"])
    may_operate, may_admin = (
        bool(auth.check_scopes(set(scopes_of(access, handler.web)), user)) for access in (Access.OPERATE, Access.ADMIN)
    )
    stops = may_admin and any(each.partition("!")[0] == _STOP_SERVERS for each in user["scopes"])
    xsrf = to_unicode(handler.xsrf_token) if may_operate else ""
    return PageCaller(user["name"], may_operate, may_admin, stops, xsrf)
