"""Bodies of requests: JSON from anyone who may ask."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tornado.web import HTTPError

__all__ = ["json_object", "json_value"]


def json_value(body: bytes) -> Any:
    """What a body says.

    Raises
    ------
    HTTPError
        400 if it is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPError(400, "The body must be JSON.") from None


def json_object(body: bytes, keys: Collection[str]) -> dict[str, Any]:
    """A body that is an object with these keys, none of which must be there.

    Raises
    ------
    HTTPError
        400 for anything else; a wrong key is named.
    """
    value = json_value(body)
    if not isinstance(value, dict):
        raise HTTPError(400, "The body must be a JSON object.")
    unknown = sorted(set(map(str, value)) - set(keys))
    if unknown:
        # A text of JSON may be no Unicode.
        name = unknown[0][:40]
        raise HTTPError(
            400, "%s: not known; allowed: %s.", name if name.isprintable() else ascii(name), ", ".join(keys)
        )
    return value
