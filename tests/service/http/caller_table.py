"""The table of endpoints and callers in docs/reference/api.md, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dra_spawner.service.http.addresses import Address
from dra_spawner.service.http.requests.endpoints import METHODS, Access, Endpoint, endpoints_of

__all__ = ["ALLOWED", "CALLERS", "caller_table", "refusal"]

ALLOWED: Final = "yes"
CALLERS: Final = (
    "nobody",
    "expired token",
    "user",
    "other user",
    "prometheus",
    "hub",
    "teacher",
    "reader",
    "operator",
    "admin",
)
"""A caller without a token, with one that is not valid (any more), a user without a role of ours who asks about their
own server, one who asks about the server of another, a program with `read:metrics`, the hub with the service's own
token, and callers with each of the four scopes."""
_READERS: Final = ("reader", "operator", "admin")
_MAY: Final[Mapping[Access, tuple[str, ...]]] = {
    Access.EVERYBODY: CALLERS,
    Access.METRICS: ("prometheus", *_READERS),
    Access.ASK: ("user", "other user", "teacher", *_READERS),
    Access.ANNOUNCE: ("teacher", "operator", "admin"),
    Access.READ: _READERS,
    Access.OPERATE: ("operator", "admin"),
    Access.ADMIN: ("admin",),
}


def refusal(endpoint: Endpoint, caller: str) -> int | None:
    """The status with which one of `CALLERS` is refused; None if it is not."""
    if caller in _MAY[endpoint.access] or (caller == "hub" and endpoint.hub):
        return None
    is_led = bool(endpoint.leads_to) and caller in _MAY[Access.ASK]
    if is_led or (caller == "nobody" and endpoint.is_page):
        return 302
    return 401 if caller in ("nobody", "expired token") else 403


def caller_table(addresses: Iterable[Address]) -> str:
    """The table as Markdown."""
    heading = ("endpoint", *CALLERS)
    lines = [_line(heading), _line("---" for _ in heading)]
    lines += (
        _line((f"`{method} {address}`", *(str(refusal(each, caller) or ALLOWED) for caller in CALLERS)))
        for address, method, each in _endpoints(addresses)
    )
    return "".join(lines)


def _endpoints(addresses: Iterable[Address]) -> Iterator[tuple[str, str, Endpoint]]:
    for address, handler in addresses:
        found = endpoints_of(handler)
        yield from ((address, method, found[method]) for method in METHODS if method in found)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
