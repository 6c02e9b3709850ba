"""JSON bodies of requests, from authorized but not trusted callers."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tornado.web import HTTPError


def json_value(body: bytes) -> Any:
    """The value that a body encodes.

    Raises
    ------
    HTTPError
        400 if it is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPError(400, "The body must be JSON.") from None


def json_object(body: bytes, keys: Collection[str], *, is_of_hub: bool = False) -> dict[str, Any]:
    """The object that a body encodes; each key is optional.

    Parameters
    ----------
    is_of_hub
        Whether a hub asks, which may be newer and tell more: other keys are left out. People learn of a typing error.

    Raises
    ------
    HTTPError
        400 if the body is not an object, or has other keys than `keys`; the message names a wrong key.
    """
    value = json_value(body)
    if not isinstance(value, dict):
        raise HTTPError(400, "The body must be a JSON object.")
    if is_of_hub:
        return {key: each for key, each in value.items() if key in keys}
    unknown = sorted(set(map(str, value)) - set(keys))
    if unknown:
        # A JSON string may not be valid Unicode.
        name = unknown[0][:40]
        raise HTTPError(
            400, "%s: not known; allowed: %s.", name if name.isprintable() else ascii(name), ", ".join(keys)
        )
    return value
