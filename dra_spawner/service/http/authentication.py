"""Who may ask what: users of JupyterHub by OAuth, programs by API tokens, both by scopes.

The hub is asked without blocking, unlike in `HubAuthenticated.get_current_user`: what this process does besides must
not wait for the hub.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Any, Final

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import HTTPError

from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.guarded_handler import GuardedHandler, sentence_of
from dra_spawner.service.web_settings import WebSettings

__all__ = ["ApiHandler", "CallbackHandler", "PageHandler", "SecureHandler"]

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

#: So long the hub may take to say who somebody is.
_HUB_SECONDS: Final = 10.0
#: That one answer tells of.
_MOST_ITEMS = 1000


class SecureHandler(GuardedHandler):
    """Headers and errors that all answers share."""

    def initialize(self, context: ServiceContext) -> None:
        self.context = context

    @property
    def web(self) -> WebSettings:
        return self.context.web

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.write_json({"status": status_code, "message": sentence_of(status_code, error)})

    def write_json(self, body: Any) -> None:
        """Answer with JSON, in ASCII: text that is no Unicode, of whoever wrote it, can be told, too."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body, allow_nan=False, separators=(",", ":")))


class _HubHandler(HubOAuthenticated, SecureHandler):
    """Answers to those who have one of `wanted_scopes` only."""

    hub_user: dict[str, Any]
    """Model of the user or service that asks."""

    @property
    def hub_auth(self) -> HubOAuth:
        assert self.web.hub_auth is not None
        return self.web.hub_auth

    @property
    def wanted_scopes(self) -> frozenset[str]:
        """Any of these will do."""
        return self.web.read_scopes | self.web.manage_scopes

    async def prepare(self) -> None:
        if self.request.method == "OPTIONS" or not self.is_protected:
            return
        if self.web.hub_auth is None:
            raise HTTPError(
                503, "This service was started without a JupyterHub ($JUPYTERHUB_API_TOKEN), so nobody can be let in."
            )
        user = await self._ask_hub()
        # For whatever of JupyterHub or tornado asks for it; `get_current_user` would block.
        self.current_user = user
        if user is None:
            self.refuse_stranger()
        elif not self.hub_auth.check_scopes(set(self.wanted_scopes), user):
            who = f"{user.get('kind', 'user')} {user['name']}"
            raise HTTPError(
                403, f"{who} has none of the scopes that let in here: {', '.join(sorted(self.wanted_scopes))}."
            )
        else:
            self.hub_user = user

    async def _ask_hub(self) -> dict[str, Any] | None:
        """Who asks; None if the hub does not know."""
        try:
            async with asyncio.timeout(_HUB_SECONDS):
                user: dict[str, Any] | None = await self.hub_auth.get_user(self, sync=False)
        except TimeoutError:
            raise HTTPError(502) from None
        except HTTPError as error:
            # It is not this service that does not work.
            raise HTTPError(502 if error.status_code >= 500 else error.status_code) from error
        return user

    def get_current_user(self) -> None:
        """Nobody, unless `prepare` found out: the parent would ask the hub, and block."""
        return

    @property
    def is_protected(self) -> bool:
        return True

    def refuse_stranger(self) -> None:
        """Somebody asks whom the hub does not know."""
        self.set_header("WWW-Authenticate", 'Bearer realm="JupyterHub"')
        raise HTTPError(401, "Send a valid JupyterHub API token (Authorization: token …), or log in.")


class ApiHandler(_HubHandler):
    """Of the API: errors are JSON, and strangers are not led anywhere."""

    def number(self, name: str, default: int, most: int = _MOST_ITEMS) -> int:
        """A number of the query, from 0 to `most`."""
        text = self.get_query_argument(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) > most:
            raise HTTPError(400, f"{name} must be a whole number from 0 to {most}.")
        return int(text)


class PageHandler(_HubHandler):
    """Of pages for people: strangers are led to the hub to log in."""

    def refuse_stranger(self) -> None:
        if self.request.headers.get("Authorization"):
            super().refuse_stranger()
        if self.request.method not in ("GET", "HEAD"):
            raise HTTPError(403, "Log in first.")
        self.redirect(self.get_login_url())

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.render("error.html", status=status_code, message=sentence_of(status_code, error), web=self.web)


class CallbackHandler(HubOAuthCallbackHandler, SecureHandler):
    """Where the hub sends people back to, logged in."""

    @property
    def hub_auth(self) -> HubOAuth:
        if self.web.hub_auth is None:
            raise HTTPError(503, "This service was started without a JupyterHub.")
        return self.web.hub_auth

    def get_current_user(self) -> None:
        """Nobody: the parent would ask the hub, and block, only to find out who is logged in already."""
        return

    async def get(self) -> None:
        """End a login, unless another browser began it: the parent says so, too, but in its log, with the states."""
        state = self.get_query_argument("state", "")
        if self.get_query_argument("code", "") and state:
            begun = self.get_secure_cookie(self.hub_auth.get_state_cookie_name(state)) or b""
            if not hmac.compare_digest(begun, state.encode()):
                raise HTTPError(403, "This login was not begun in this browser, or too long ago. Log in again.")
        await HubOAuthCallbackHandler.get(self)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.render("error.html", status=status_code, message=sentence_of(status_code, error), web=self.web)
