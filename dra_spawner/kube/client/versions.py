"""Versions of objects of the API."""

from __future__ import annotations

from typing import Final

OLDER_STATE: Final = (
    "the API server answers with an older state than before (resourceVersion {version:.40}, was {newest:.40}); if the "
    "cluster was restored from a backup, restart this program"
)
"""Message for an answer that is older than another that came before the request."""


def is_older(version: str, than: str) -> bool:
    """Whether an object's ``metadata.resourceVersion`` is older than another of the same resource.

    They are numbers that grow (KEP-5504). Versions of another kind, as an extension API server may have, and unknown
    ones, which are empty, are not older.
    """
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()
