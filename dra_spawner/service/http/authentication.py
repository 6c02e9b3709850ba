"""Authentication of users by JupyterHub's OAuth and of programs by API tokens; authorization by scopes.

Requests to the hub do not block the event loop, unlike those of `HubAuthenticated.get_current_user`.
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

__all__ = ["HUB_SECONDS", "ApiHandler", "CallbackHandler", "PageHandler", "SecureHandler"]

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

#: Limit of the time for the hub's answer about a token.
HUB_SECONDS: Final = 10.0
#: Limit of items in one answer.
_MOST_ITEMS = 1000


class SecureHandler(GuardedHandler):
    """Headers and error answers of all handlers."""

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
        """Answer with JSON in ASCII, which can also express text that is not valid Unicode."""
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body, allow_nan=False, separators=(",", ":")))


class _HubHandler(HubOAuthenticated, SecureHandler):
    """Answers only callers with one of `accepted_scopes`."""

    hub_user: dict[str, Any]
    """Model of the user or service that calls."""

    @property
    def hub_auth(self) -> HubOAuth:
        assert self.web.hub_auth is not None
        return self.web.hub_auth

    @property
    def accepted_scopes(self) -> frozenset[str]:
        return self.web.read_scopes | self.web.manage_scopes

    async def prepare(self) -> None:
        if self.request.method == "OPTIONS" or not self.is_protected:
            return
        if self.web.hub_auth is None:
            raise HTTPError(
                503, "This service was started without a JupyterHub ($JUPYTERHUB_API_TOKEN), so no user can log in."
            )
        user = await self._ask_hub()
        # JupyterHub and tornado read it; `get_current_user` would block.
        self.current_user = user
        if user is None:
            self.reject_unauthenticated()
        elif not self.hub_auth.check_scopes(set(self.accepted_scopes), user):
            caller = f"{user.get('kind', 'user')} {user['name']}"
            needed = ", ".join(sorted(self.accepted_scopes))
            raise HTTPError(403, f"{caller} has none of the scopes that this address needs: {needed}.")
        else:
            self.hub_user = user

    async def _ask_hub(self) -> dict[str, Any] | None:
        """Model of the caller; None if the hub does not know the caller."""
        try:
            async with asyncio.timeout(HUB_SECONDS):
                user: dict[str, Any] | None = await self.hub_auth.get_user(self, sync=False)
        except TimeoutError:
            raise HTTPError(502) from None
        except HTTPError as error:
            # 502: the hub failed, not this service.
            raise HTTPError(502 if error.status_code >= 500 else error.status_code) from error
        return user

    def get_current_user(self) -> None:
        """None; `prepare` sets the user. The parent's method would ask the hub, and block."""
        return

    @property
    def is_protected(self) -> bool:
        return True

    def reject_unauthenticated(self) -> None:
        """Answer a caller that the hub does not know."""
        self.set_header("WWW-Authenticate", 'Bearer realm="JupyterHub"')
        raise HTTPError(401, "Send a valid JupyterHub API token (Authorization: token …), or log in.")


class ApiHandler(_HubHandler):
    """Handler of the API: errors are JSON, and unauthenticated callers get 401."""

    def number(self, name: str, default: int, most: int = _MOST_ITEMS) -> int:
        """A whole number from the query.

        Raises
        ------
        HTTPError
            400 if the argument is not a number from 0 to `most`.
        """
        text = self.get_query_argument(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) > most:
            raise HTTPError(400, f"{name} must be a whole number from 0 to {most}.")
        return int(text)


class PageHandler(_HubHandler):
    """Handler of pages: unauthenticated callers are redirected to the hub's login."""

    def reject_unauthenticated(self) -> None:
        if self.request.headers.get("Authorization"):
            super().reject_unauthenticated()
        if self.request.method not in ("GET", "HEAD"):
            raise HTTPError(403, "Log in first.")
        self.redirect(self.get_login_url())

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.render("error.html", status=status_code, message=sentence_of(status_code, error), web=self.web)


class CallbackHandler(HubOAuthCallbackHandler, SecureHandler):
    """``oauth_callback``: the address to which the hub redirects at the end of a login."""

    @property
    def hub_auth(self) -> HubOAuth:
        if self.web.hub_auth is None:
            raise HTTPError(503, "This service was started without a JupyterHub.")
        return self.web.hub_auth

    def get_current_user(self) -> None:
        """None. The parent's method would ask the hub, and block."""
        return

    async def get(self) -> None:
        """End a login, unless another browser began it. The parent's method would then log the states of both."""
        state = self.get_query_argument("state", "")
        if self.get_query_argument("code", "") and state:
            begun = self.get_secure_cookie(self.hub_auth.get_state_cookie_name(state)) or b""
            if not hmac.compare_digest(begun, state.encode()):
                raise HTTPError(403, "This login began in another browser, or too long ago. Log in again.")
        await HubOAuthCallbackHandler.get(self)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.render("error.html", status=status_code, message=sentence_of(status_code, error), web=self.web)
