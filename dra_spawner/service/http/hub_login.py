"""JupyterHub's client for logins, with bounds: what strangers may make it remember, and how long it is waited for.

Whoever opens a page without a login makes JupyterHub's client remember where they were going, and each token that is
tried makes it remember the answer. Both are forgotten after minutes, however many there are; here the oldest go first.
"""

from __future__ import annotations

import re
from typing import Any, Final

from jupyterhub.services.auth import HubOAuth, _ExpiringDict
from tornado.web import RequestHandler
from traitlets import default

__all__ = ["BoundedHubOAuth"]

#: Logins that have begun, and answers of the hub about tokens.
_MOST_REMEMBERED: Final = 5_000
#: Of an address to go back to after a login; from a longer one people come to the page itself.
_LONGEST_ADDRESS: Final = 1_024
#: JupyterHub's own are 32 and 43 characters long.
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,64}")
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1024}")


class _BoundedDict(_ExpiringDict):
    """Forgets the oldest when there are many; all are there for the same time, so it is the next to expire anyway."""

    def __setitem__(self, key: str, value: object) -> None:
        if key not in self.values and len(self.values) >= _MOST_REMEMBERED:
            del self[next(iter(self.values))]
        super().__setitem__(key, value)


class BoundedHubOAuth(HubOAuth):
    """See the module."""

    @default("cache")
    def _default_cache(self) -> _BoundedDict:
        return _BoundedDict(self.cache_max_age)

    @default("_oauth_states")
    def _default_oauth_states(self) -> _BoundedDict:
        return _BoundedDict(self.oauth_state_max_age)

    def generate_state(self, next_url: str | None = None, **extra_state: Any) -> str:
        """Remember that somebody begins to log in."""
        is_short = next_url is not None and len(next_url) <= _LONGEST_ADDRESS
        state: str = super().generate_state(next_url if is_short else None, **extra_state)
        return state

    def get_token(self, handler: RequestHandler, in_cookie: bool = True) -> str | None:
        """The token of a request; what cannot be one, or be sent to the hub, is none."""
        token: str | None = super().get_token(handler, in_cookie)
        return token if token and _TOKEN.fullmatch(token) else None

    def get_session_id(self, handler: RequestHandler) -> str:
        """The session's id, which becomes part of what is remembered; what cannot be one is none."""
        found: Any = super().get_session_id(handler)
        return found if isinstance(found, str) and _SESSION.fullmatch(found) else ""
