"""Versions of objects of the API."""

from __future__ import annotations

__all__ = ["is_older"]


def is_older(version: str, than: str) -> bool:
    """Whether an object's ``metadata.resourceVersion`` is older than another of the same resource.

    They are numbers that grow (KEP-5504). Versions of another kind, as an extension API server may have, and unknown
    ones, which are empty, are not older.
    """
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()
