"""JupyterHub's OAuth client with a limit on what unauthenticated callers make it remember.

For each page that is opened without a login JupyterHub's client remembers the address, and for each token the hub's
answer. It forgets both after minutes only. Here the oldest entries go when there are too many.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jupyterhub.services.auth import HubOAuth, _ExpiringDict
from tornado.web import RequestHandler
from traitlets import default

__all__ = ["MOST_REMEMBERED", "BoundedHubOAuth"]

#: Limit of begun logins, and of the hub's answers about tokens.
MOST_REMEMBERED: Final = 5_000
#: Limit of the address after a login; a longer one is replaced by the page.
_LONGEST_ADDRESS: Final = 1_024
#: JupyterHub's own are 32 and 43 characters long.
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,64}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1024}")


class _BoundedDict(_ExpiringDict):
    """Forgets the oldest entry at the limit; it is the next one to expire."""

    def __setitem__(self, key: str, value: object) -> None:
        if key not in self.values and len(self.values) >= MOST_REMEMBERED:
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
        """State of a login that begins."""
        is_short = next_url is not None and len(next_url) <= _LONGEST_ADDRESS
        state: str = super().generate_state(next_url if is_short else None, **extra_state)
        return state

    def get_token(self, handler: RequestHandler, in_cookie: bool = True) -> str | None:
        """The token of a request; None if it has none that can be valid."""
        token: str | None = super().get_token(handler, in_cookie)
        return token if token and _TOKEN.fullmatch(token) else None

    def get_session_id(self, handler: RequestHandler) -> str:
        """The session's id, part of the keys of the cache; empty if it cannot be valid."""
        found: Any = super().get_session_id(handler)
        return found if isinstance(found, str) and _SESSION.fullmatch(found) else ""
