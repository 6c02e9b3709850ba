"""The table of endpoints and callers in docs/reference/api.md, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dra_spawner.service.http.addresses import Address
from dra_spawner.service.http.requests.endpoints import METHODS, Access, Endpoint, endpoints_of

__all__ = ["ALLOWED", "CALLERS", "caller_table", "refusal"]

ALLOWED: Final = "yes"
_LEVEL: Final[Mapping[str, int]] = {
    "nobody": 0,
    "expired token": 0,
    "user": 1,
    "other user": 1,
    "prometheus": 1,
    "hub": 1,
    "reader": 2,
    "operator": 3,
    "admin": 4,
}
CALLERS: Final = tuple(_LEVEL)
"""A caller without a token, with one that is not valid (any more), a user without a role who asks about their own
server, one who asks about the server of another, a program with `read:metrics`, the hub with the service's own token,
and callers with each of the three scopes."""
_NEEDED: Final[Mapping[Access, int]] = {
    Access.EVERYBODY: 0,
    Access.METRICS: 2,
    Access.READ: 2,
    Access.OPERATE: 3,
    Access.ADMIN: 4,
}


def refusal(endpoint: Endpoint, caller: str) -> int | None:
    """The status with which one of `CALLERS` is refused; None if it is not."""
    level, needed = _LEVEL[caller], _NEEDED[endpoint.access]
    if (
        level >= needed
        or (caller == "hub" and endpoint.hub)
        or (caller == "prometheus" and endpoint.access is Access.METRICS)
    ):
        return None
    if caller == "nobody" and endpoint.is_page:
        return 302
    return 403 if level else 401


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
