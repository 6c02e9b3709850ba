"""Pages of lists: ``limit`` and ``continue``, as in the API of Kubernetes."""

from __future__ import annotations

import base64
import binascii
import bisect
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Unreadable(ValueError):
    """Raised where a token of a page is none of ours."""


def write_token(key: str) -> str:
    """The token of the page after an item with this key; empty for an empty key."""
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read_token(token: str) -> str:
    """The key in a token.

    Raises
    ------
    Unreadable
    """
    try:
        data = token.encode("ascii")
        return base64.b64decode(data + b"=" * (-len(data) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Unreadable(token) from None


def page_of(found: Sequence[T], limit: int, after: str, key: Callable[[T], str]) -> tuple[Sequence[T], str]:
    """The items of one page, and the token of the next one; empty at the end.

    Parameters
    ----------
    found
        All items, sorted by `key`, which differs for each.
    after
        Key of the last item of the page before; empty for the first page.
    """
    begin = bisect.bisect_right(found, after, key=key) if after else 0
    chosen = found[begin : begin + limit]
    return chosen, write_token(key(chosen[-1])) if chosen and begin + limit < len(found) else ""
