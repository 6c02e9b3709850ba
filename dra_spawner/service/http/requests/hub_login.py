"""JupyterHub's OAuth client with limits of its caches, which unauthenticated callers can fill.

JupyterHub's client caches the address of each page that is opened without a login, and the hub's answer about each
token, for some minutes. Here the oldest entries are removed when a cache is full.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jupyterhub.services.auth import HubOAuth, _ExpiringDict
from tornado.web import RequestHandler
from traitlets import default

#: Limit of cached logins, and of cached answers about tokens.
MAX_CACHED: Final = 5_000
#: Limit of the address to which a login leads; a longer address is replaced by the service's page.
_LONGEST_ADDRESS: Final = 1_024
#: JupyterHub's session ids have 32 characters, its tokens 43.
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,64}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1024}")


class _BoundedDict(_ExpiringDict):
    """Removes the oldest entry at the limit; it is the next one to expire."""

    def __setitem__(self, key: str, value: object) -> None:
        if key not in self.values and len(self.values) >= MAX_CACHED:
            del self[next(iter(self.values))]
        super().__setitem__(key, value)


class BoundedHubOAuth(HubOAuth):
    """JupyterHub's OAuth client with limits."""

    @default("cache")
    def _default_cache(self) -> _BoundedDict:
        return _BoundedDict(self.cache_max_age)

    @default("_oauth_states")
    def _default_oauth_states(self) -> _BoundedDict:
        return _BoundedDict(self.oauth_state_max_age)

    def generate_state(self, next_url: str | None = None, **extra_state: Any) -> str:
        """The state of a new login."""
        is_short = next_url is not None and len(next_url) <= _LONGEST_ADDRESS
        state: str = super().generate_state(next_url if is_short else None, **extra_state)
        return state

    def get_token(self, handler: RequestHandler, in_cookie: bool = True) -> str | None:
        """The token of a request; None if there is none, or if it cannot be valid."""
        token: str | None = super().get_token(handler, in_cookie)
        return token if token and _TOKEN.fullmatch(token) else None

    def get_session_id(self, handler: RequestHandler) -> str:
        """The session's id, which is part of the cache's keys; empty if it cannot be valid."""
        found: Any = super().get_session_id(handler)
        return found if isinstance(found, str) and _SESSION.fullmatch(found) else ""
