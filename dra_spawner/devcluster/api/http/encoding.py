"""JSON text of API objects."""

import json
from collections.abc import Callable
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.storage.changes import WatchEvent, WatchEventType
from dra_spawner.dra.model.decoding import is_deeper_than

_MAX_LEVELS: Final = 250
"""Maximum nesting, for the recursive functions that process objects; a real API server admits 10,000 levels."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def to_json(value: Any) -> bytes:
    """A JSON value as compact UTF-8 text."""
    return _encode(value).encode("utf-8", "replace")


def from_json(text: bytes | str) -> Any:
    """Parse a JSON text.

    Raises
    ------
    ValueError
        If it is not JSON (``NaN`` is not), or too deeply nested.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if is_deeper_than(value, _MAX_LEVELS):
        raise ValueError("nested too deeply")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


class ObjectEncoder:
    """Encodes objects, and caches the text of the present state of stored ones.

    `forget` must be subscribed to the store.

    Parameters
    ----------
    is_stored
        Whether an object is the present state of a stored object; other texts would stay for ever.
    """

    def __init__(self, is_stored: Callable[[JsonObject], bool]) -> None:
        self._is_stored = is_stored
        self._texts: dict[str, tuple[JsonObject, bytes]] = {}

    def forget(self, event: WatchEvent) -> None:
        """Drop the text of a deleted object."""
        if event.type is WatchEventType.DELETED:
            self._texts.pop(event.object["metadata"]["uid"], None)

    def item(self, obj: JsonObject) -> bytes:
        """The object as an item of a list, without `apiVersion` and `kind`."""
        return b"{" + self._members(obj) + b"}"

    def whole(self, obj: JsonObject) -> bytes:
        """The object with `apiVersion` and `kind`."""
        kind = to_json({"kind": obj["kind"], "apiVersion": obj["apiVersion"]})
        return kind[:-1] + b"," + self._members(obj) + b"}"

    def _members(self, obj: JsonObject) -> bytes:
        uid = obj["metadata"].get("uid", "")
        known = self._texts.get(uid)
        if known is not None and known[0] is obj:
            return known[1]
        text = to_json({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})[1:-1]
        if uid and self._is_stored(obj):
            self._texts[uid] = (obj, text)
        return text
