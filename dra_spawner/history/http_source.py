"""Reading of JSON from a server or a file that an administrator names."""

from __future__ import annotations

import json
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from dra_spawner.history.imported_rows import SourceError

__all__ = ["get_json", "is_http", "read_json", "read_token"]

_SECONDS: Final = 60
_MAX_BYTES: Final = 256 * 2**20


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


def get_json(url: str, headers: dict[str, str]) -> Any:
    """The JSON that a server answers.

    Raises
    ------
    SourceError
        If the server cannot be reached, answers with an error, or does not answer with JSON.
    """
    request = Request(url, headers=headers)  # noqa: S310 (`is_http`)
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            content = answer.read(_MAX_BYTES + 1)
    except HTTPError as error:
        detail = error.read(300).decode(errors="replace")
        raise SourceError(f"{url}: answered {error.code} {error.reason}: {' '.join(detail.split())}") from None
    except (URLError, OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{url}: cannot be reached: {getattr(error, 'reason', error)}") from None
    return _decoded(url, content)


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
