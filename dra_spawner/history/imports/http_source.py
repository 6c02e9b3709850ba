"""Reading of JSON from a server or a file that an administrator names."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dra_spawner.history.imports.imported_rows import SourceError, quoted

_SECONDS: Final = 60
_MAX_BYTES: Final = 256 * 2**20
_PAGE: Final = 200
_PAGINATED: Final = "application/jupyterhub-pagination+json"
#: Host and port, at the beginning of an address without its scheme.
_AUTHORITY: Final = re.compile(r"(?:\[[^\]/]*\]|[^:/]*)(?::\d*)?(?:/|$)")


def is_http(source: str) -> bool:
    """Whether a source is a URL of a server, and not a file."""
    return source.startswith(("http://", "https://"))


def read_token(path: str) -> str:
    """The token in a file; empty if `path` is empty.

    Raises
    ------
    SourceError
        If the file cannot be read.
    """
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the token cannot be read from {path}: {getattr(error, 'strerror', None) or error}"
        ) from None


def shown_source(source: str) -> str:
    """A source for messages: a URL without its user, password and query, which may be secret."""
    scheme, separator, rest = source.partition("://")
    if not separator:
        return source
    head = re.split(r"[?#]", rest, maxsplit=1)[0]
    shown = head.rpartition("@")[2]
    has_more = "@" in rest and "@" not in head
    if not _AUTHORITY.match(shown) or (has_more and ":" in shown):
        return f"{scheme}{separator}..."  # a password may have any character
    return scheme + separator + shown


class _NoRedirects(HTTPRedirectHandler):
    """The token is for the named server only."""

    def redirect_request(self, *arguments: Any) -> None:
        """Let the redirect be an error."""


def get_json(url: str, headers: dict[str, str]) -> Any:
    """The JSON that a server answers. Redirects are not followed, as the headers may have a token.

    Raises
    ------
    SourceError
        If the server cannot be reached, answers with an error, or does not answer with JSON. It shows no password.
    """
    shown = shown_source(url)
    try:
        request = _request(url, headers)
        with build_opener(_NoRedirects).open(request, timeout=_SECONDS) as answer:
            content = answer.read(_MAX_BYTES + 1)
    except HTTPError as error:
        if 300 <= error.code < 400:
            what = f"answered {error.code}, a redirect, which is not followed; name the address to which it redirects"
            raise SourceError(f"{shown}: {what}") from None
        detail = error.read(300).decode(errors="replace")
        raise SourceError(f"{shown}: answered {error.code} {error.reason}: {' '.join(detail.split())}") from None
    except (InvalidURL, ValueError):  # their messages have parts of the URL
        raise SourceError(f"{shown}: is not a valid URL") from None
    except (URLError, OSError, HTTPException) as error:
        raise SourceError(f"{shown}: cannot be reached: {getattr(error, 'reason', error)}") from None
    return _decoded(shown, content)


def _request(url: str, headers: dict[str, str]) -> Request:
    """A request. User and password of the URL become a header, as Python takes them for a part of the host."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return Request(url, headers=headers)  # noqa: S310 (`is_http`)
    host = parts.netloc.rpartition("@")[2]
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    basic = base64.b64encode(user.encode()).decode()
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    return Request(bare, headers={"Authorization": f"Basic {basic}", **headers})  # noqa: S310


def hub_items(api: str, collection: str, token: str, query: str = "") -> Iterator[Any]:
    """All items of a collection of JupyterHub's REST API, read in pages.

    Parameters
    ----------
    api
        URL of the REST API, like ``https://hub.example.org/hub/api``.
    collection
        ``users`` or ``groups``.

    Raises
    ------
    SourceError
        If the hub cannot be reached, answers with an error, or not with a list.
    """
    headers = {"Accept": _PAGINATED}
    if token:
        headers["Authorization"] = f"token {token}"
    number = 0
    while True:
        url = f"{api.rstrip('/')}/{collection}?limit={_PAGE}&offset={number}{'&' if query else ''}{query}"
        answer = get_json(url, headers)
        items = answer.get("items") if isinstance(answer, dict) else answer
        if not isinstance(items, list):
            raise SourceError(f"{shown_source(url)}: found {quoted(answer)}; allowed: a list of {collection}")
        yield from items
        number += len(items)
        # A hub without pagination answers with one list of all.
        if len(items) < _PAGE or not isinstance(answer, dict):
            return


def read_json(path: str) -> Any:
    """The JSON in a file.

    Raises
    ------
    SourceError
        If the file cannot be read, or is not JSON.
    """
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}") from None
    return _decoded(path, content)


def _decoded(source: str, content: bytes) -> Any:
    if len(content) > _MAX_BYTES:
        raise SourceError(f"{source}: has more than {_MAX_BYTES // 2**20} MiB, which is the limit")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{source}: is not JSON: {error}") from None
