"""What all pages have in common: links to the hub and to the other pages, and what the reader may do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyterhub.services.auth import check_scopes

from dra_spawner.service.http.requests.endpoints import Access
from dra_spawner.service.web_settings import WebSettings

#: Age of the data about the cluster from which a page names it: watches begin anew each 10 s. As in live.js.
OLD_SECONDS: Final = 15.0

#: Titles of the pages in the order of their links. A link is shown where the application has the address.
PAGES: Final[Mapping[str, str]] = {
    "": "Today",
    "nodes": "Nodes",
    "placeholders": "Placeholders",
    "timeline": "Timeline",
    "calendar": "Calendar",
    "classes": "Classes",
    "what-if": "What if",
    "decisions": "Decisions",
    "audit": "Audit",
    "report": "Largest misses",
    "use": "Use",
    "idle": "Idle",
    "doctor": "What to fix",
}


def scopes_of(access: Access, web: WebSettings) -> frozenset[str]:
    """Scopes, any of which is needed; empty for an endpoint that answers everybody."""
    match access:
        case Access.EVERYBODY:
            return frozenset()
        case Access.METRICS:
            return scopes_of(Access.READ, web) | web.metrics_scopes if web.authenticate_metrics else frozenset()
        case Access.ASK:
            return web.ask_scopes | scopes_of(Access.ANNOUNCE, web) | scopes_of(Access.READ, web)
        case Access.ANNOUNCE:
            return web.announce_scopes | scopes_of(Access.OPERATE, web)
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


def may(access: Access, web: WebSettings, reader: Mapping[str, Any] | None) -> bool:
    """Whether a reader's scopes allow what needs this access; only what is for everybody before the login."""
    needed = scopes_of(access, web)
    return not needed or bool(check_scopes(set(needed), set(reader["scopes"]) if reader is not None else set()))


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
        The application's addresses, each with who may open it.
    path
        Path of the request.
    reader
        Model of the user; None before the login.
    """

    web: WebSettings
    addresses: Mapping[str, Access]
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
        """Links to the pages that the application has, and that the reader may open."""
        return [
            PageLink(self.web.url(address), title, self.is_at(address))
            for address, title in PAGES.items()
            if address in self.addresses and self.may(self.addresses[address])
        ]

    def may(self, access: Access | str) -> bool:
        """Whether the reader's scopes allow what needs this access."""
        return may(Access(access), self.web, self.reader)

    def is_at(self, address: str) -> bool:
        """Whether this is the page at an address."""
        return self.path == self.web.url(address)

    @property
    def may_stop_servers(self) -> bool:
        """Whether the hub may let the reader stop servers; with a filter in the scope it decides for each server."""
        return self.may(Access.ADMIN) and any(each.partition("!")[0] == "delete:servers" for each in self._scopes)

    @property
    def allowed(self) -> str:
        """The reader's levels of access, for scripts: such as ``read operate``."""
        levels = (Access.ANNOUNCE, Access.READ, Access.OPERATE, Access.ADMIN)
        return " ".join(each.value for each in levels if self.may(each))

    @property
    def _scopes(self) -> set[str]:
        return set(self.reader["scopes"]) if self.reader is not None else set()
