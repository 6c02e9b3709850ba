"""Authentication of users by JupyterHub's OAuth and of programs by API tokens; authorization by scopes.

Requests to the hub do not block the event loop, unlike those of `HubAuthenticated.get_current_user`.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler, HubOAuthenticated
from tornado.web import Finish, HTTPError

from dra_spawner.service.context import ServiceContext
from dra_spawner.service.http.requests.endpoints import HTML, Access, Endpoint, endpoint, endpoints_of
from dra_spawner.service.http.requests.guarded_handler import GuardedHandler, sentence_of
from dra_spawner.service.http.requests.page_frame import PageFrame, data_are, scopes_of
from dra_spawner.service.http.requests.paging import Unreadable, page_of, read_token
from dra_spawner.service.web_settings import WebSettings

T = TypeVar("T")

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}

#: Header of each answer: seconds since the data about the cluster were complete.
DATA_AGE: Final = "DRA-Spawner-Data-Age"
#: Limit of the time for the hub's answer about a token.
HUB_SECONDS: Final = 10.0
#: Limit of items in one answer.
_MAX_ITEMS: Final = 1000
_DEFAULT_ITEMS: Final = 100
#: Control characters, which HTML does not allow, and those that turn the direction of text round.
_HIDING: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of a request; empty if there is none."""
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() in ("token", "bearer") else ""


class SecureHandler(GuardedHandler):
    """Headers, methods and error answers of all handlers; methods are declared by `endpoints.endpoint`."""

    def initialize(self, context: ServiceContext) -> None:
        self.context = context
        self.body = bytearray()
        #: Before anything is read: a page has everything up to this event.
        self.last_event = context.feed.last_id
        age = context.feed.data_age()
        self.set_header(DATA_AGE, f"{age:.1f}" if math.isfinite(age) else "unknown")

    @property
    def declared(self) -> Endpoint | None:
        """The declaration of what is asked; None if the address does not have this method."""
        return endpoints_of(type(self)).get(self.request.method or "")

    async def prepare(self) -> None:
        """Refuse methods that the address does not have."""
        if self.declared is None:
            raise HTTPError(405)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        if status_code == 405:  # tornado itself refuses some methods, before `prepare`
            self._refusal_headers = {"Allow": ", ".join(endpoints_of(type(self)))}
        super().send_error(status_code, **kwargs)

    def data_received(self, chunk: bytes) -> None:
        """Collect a declared body: the caller is authorized by now, and the server limits the size."""
        if self.declared is not None and self.declared.body is not None:
            self.body += chunk

    async def head(self, *arguments: str) -> None:
        """Answer as to a ``GET``; tornado leaves the body out."""
        work = self.get(*arguments)
        if work is not None:
            await work

    @property
    def web(self) -> WebSettings:
        return self.context.web

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def get_template_namespace(self) -> dict[str, Any]:
        """Names that each template knows: also `frame`, for the page's layout."""
        pages = {address: endpoints_of(handler).get("GET") for address, handler in self.settings.get("addresses", ())}
        addresses = {address: each.access for address, each in pages.items() if each is not None}
        age = self.context.feed.data_age()
        frame = PageFrame(self.web, addresses, self.request.path, getattr(self, "hub_user", None))
        return {
            **super().get_template_namespace(),
            "web": self.web,
            "frame": frame,
            "data_age": age,
            "data_are": data_are(age),
        }


class _HubHandler(HubOAuthenticated, SecureHandler):
    """Answers only callers with one of the scopes of the endpoint."""

    hub_user: dict[str, Any]
    """Model of the user or service that calls."""

    @property
    def hub_auth(self) -> HubOAuth:
        assert self.web.hub_auth is not None
        return self.web.hub_auth

    async def prepare(self) -> None:
        await SecureHandler.prepare(self)
        declared = self.declared
        assert declared is not None  # or it was refused
        accepted, token = scopes_of(declared.access, self.web), bearer_token(self.request.headers)
        if not accepted or (declared.hub and self.web.is_own_token(token)):
            return
        if not token and not declared.cookie:
            self.reject_unauthenticated()
        if self.web.hub_auth is None:
            raise HTTPError(
                503, "This service was started without a JupyterHub ($JUPYTERHUB_API_TOKEN), so no user can log in."
            )
        user = await self._ask_hub()
        # JupyterHub and tornado read it; `get_current_user` would block.
        self.current_user = user
        if user is None:
            self.reject_unauthenticated()
            return
        if not self.hub_auth.check_scopes(set(accepted), user):
            self.reject_unauthorized(user)
            caller = f"{user.get('kind', 'user')} {user['name']}"
            needed = ", ".join(sorted(accepted))
            raise HTTPError(403, f"{caller} has none of the scopes that this address needs: {needed}.")
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

    def reject_unauthorized(self, user: Mapping[str, Any]) -> None:
        """Answer a caller without the needed scopes otherwise than with 403, or do nothing."""

    def reject_unauthenticated(self) -> None:
        """Answer a caller that the hub does not know."""
        self.refuse(
            401,
            "Send a valid JupyterHub API token (Authorization: token …), or log in.",
            WWW_Authenticate='Bearer realm="JupyterHub"',
        )


class ApiHandler(_HubHandler):
    """Handler of the API: errors are JSON, and unauthenticated callers get 401."""

    def number(self, name: str, default: int = _DEFAULT_ITEMS, most: int = _MAX_ITEMS) -> int:
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

    def page(self, found: Sequence[T], key: Callable[[T], str]) -> dict[str, Any]:
        """The wanted page of a list that is sorted by `key`, as members of the answer; all without a limit.

        Raises
        ------
        HTTPError
            400 if `limit` or `continue` is wrong.
        """
        chosen, following = page_of(found, self.number("limit", len(found)), self.continues_after(), key)
        return {"items": list(chosen), "continue": following, "total": len(found)}

    def continues_after(self) -> str:
        """The key of the last item of the page before; empty for the first page.

        Raises
        ------
        HTTPError
            400 if `continue` is none of our tokens.
        """
        try:
            return read_token(self.get_query_argument("continue", ""))
        except Unreadable:
            raise HTTPError(400, "continue: allowed: the text that the page before has in `continue`.") from None


class PageHandler(_HubHandler):
    """Handler of pages: unauthenticated callers are redirected to the hub's login."""

    def reject_unauthenticated(self) -> None:
        # A script cannot log in, and the hub's login sets a cookie for each time that it is asked for.
        if any(name in self.request.headers for name in ("Authorization", "X-XSRFToken")):
            super().reject_unauthenticated()
        self.redirect(self.get_login_url())

    def get_template_namespace(self) -> dict[str, Any]:
        """Names that each page knows: also what its dialogs say of the mode."""
        controller = self.context.controller
        mode = {
            "not_preparing": controller.not_preparing_because() if controller is not None else "",
            "observing_because": controller.policy.observing_because if controller is not None else "",
        }
        return {**super().get_template_namespace(), **mode}

    def reject_unauthorized(self, user: Mapping[str, Any]) -> None:
        """Lead people to the page that they may open, if this one names it."""
        declared = self.declared
        if declared is not None and declared.leads_to:
            needed = scopes_of(Access.ASK, self.web)
            if self.hub_auth.check_scopes(set(needed), user):
                self.redirect(self.web.url(declared.leads_to))
                raise Finish

    def render_string(self, template_name: str, **kwargs: Any) -> bytes:
        """The page; a character that hides or turns round texts of drivers and users becomes U+FFFD."""
        return _HIDING.sub("\ufffd", super().render_string(template_name, **kwargs).decode()).encode()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        self.render("error.html", status=status_code, message=sentence_of(status_code, error))


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

    @endpoint("The end of a login by JupyterHub.", Access.EVERYBODY, media_type=HTML)
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
        self.render("error.html", status=status_code, message=sentence_of(status_code, error))
