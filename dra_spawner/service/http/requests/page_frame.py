"""What all pages have in common: links to the hub and to the other pages, and what the reader may do."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyterhub.services.auth import check_scopes

from dra_spawner.service.http.requests.endpoints import Access
from dra_spawner.service.web_settings import WebSettings

__all__ = ["OLD_SECONDS", "PAGES", "PageFrame", "PageLink", "data_are", "scopes_of"]

#: Age of the data about the cluster from which a page names it: watches begin anew each 10 s. As in live.js.
OLD_SECONDS: Final = 15.0

#: Titles of the pages in the order of their links. A link is shown where the application has the address.
PAGES: Final[Mapping[str, str]] = {
    "": "Nodes",
    "placeholders": "Placeholders",
    "timeline": "Timeline",
    "calendar": "Calendar",
    "what-if": "What if",
    "decisions": "Decisions",
    "audit": "Audit",
    "report": "Largest misses",
    "use": "Use",
    "doctor": "What to fix",
}

#: Pages whose links others do not see.
_FOR_ADMINISTRATORS: Final = frozenset({"use"})


def scopes_of(access: Access, web: WebSettings) -> frozenset[str]:
    """Scopes, any of which is needed; empty for an endpoint that answers everybody."""
    match access:
        case Access.EVERYBODY:
            return frozenset()
        case Access.METRICS:
            return scopes_of(Access.READ, web) | web.metrics_scopes if web.authenticate_metrics else frozenset()
        case Access.READ:
            return web.read_scopes | scopes_of(Access.OPERATE, web)
        case Access.OPERATE:
            return web.operate_scopes | web.admin_scopes
        case Access.ADMIN:
            return web.admin_scopes


def data_are(age: float) -> str:
    """A sentence about data that are old; empty for fresh ones, and where there are none yet.

    Parameters
    ----------
    age
        Seconds since the data about the cluster were complete; may be infinite.
    """
    if not OLD_SECONDS < age < math.inf:
        return ""
    return f"Figures are {age:.0f} s old" if age < 120 else f"Figures are {age // 60:.0f} min old"


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to one of the service's pages."""

    url: str
    title: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class PageFrame:
    """What `layout.html` shows around a page.

    Attributes
    ----------
    addresses
        The application's addresses.
    path
        Path of the request.
    reader
        Model of the user; None before the login.
    """

    web: WebSettings
    addresses: Collection[str]
    path: str
    reader: Mapping[str, Any] | None

    @property
    def hub(self) -> str:
        """Address of the hub's pages, with a slash at its end; empty without a hub."""
        auth = self.web.hub_auth
        return f"{auth.hub_host}{auth.hub_prefix}" if auth is not None else ""

    @property
    def user(self) -> str:
        """Name of the reader; empty before the login."""
        return str(self.reader["name"]) if self.reader is not None else ""

    @property
    def shows_admin_page(self) -> bool:
        """Whether the reader may open the hub's admin page."""
        return self.reader is not None and (bool(self.reader.get("admin")) or "admin-ui" in self._scopes)

    @property
    def links(self) -> Sequence[PageLink]:
        """Links to the pages that the application has."""
        return [
            PageLink(self.web.url(address), title, self.web.url(address) == self.path)
            for address, title in PAGES.items()
            if address in self.addresses and (address not in _FOR_ADMINISTRATORS or self.may(Access.ADMIN))
        ]

    def may(self, access: Access | str) -> bool:
        """Whether the reader's scopes allow what needs this access."""
        return bool(check_scopes(set(scopes_of(Access(access), self.web)), self._scopes))

    @property
    def may_stop_servers(self) -> bool:
        """Whether the hub may let the reader stop servers; with a filter in the scope it decides for each server."""
        return self.may(Access.ADMIN) and any(each.partition("!")[0] == "delete:servers" for each in self._scopes)

    @property
    def allowed(self) -> str:
        """The reader's levels of access, for scripts: such as ``read operate``."""
        return " ".join(each.value for each in (Access.READ, Access.OPERATE, Access.ADMIN) if self.may(each))

    @property
    def _scopes(self) -> set[str]:
        return set(self.reader["scopes"]) if self.reader is not None else set()
