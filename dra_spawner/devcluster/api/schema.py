"""Decoding of API objects: checks types, drops unknown fields and nulls, normalises quantities and times.

kube-apiserver decodes into Go structures. This module uses a table of their fields, ``schema.json``, made from the API
server's OpenAPI document.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.errors import bad_request
from dra_spawner.devcluster.api.json_values import mutable_copy
from dra_spawner.devcluster.api.resource_types import ResourceType
from dra_spawner.dra.quantity import Quantity, QuantityError

_Decode = Callable[[Any], Any]
_INT_LIMITS = {"int32": 2**31, "int64": 2**63}


class _DecodeError(Exception):
    """Raised for a value of the wrong type; each enclosing structure adds its field to the path."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence  # has {field} for the field's name
        self.structure = ""
        self.path: list[str] = []

    def extend_path(self, structure: str, field: str) -> None:
        self.structure = self.structure or structure
        self.path.append(field)

    def __str__(self) -> str:
        name = self.structure.rpartition(".")[2]
        return self.sentence.replace("{field}", ".".join([name, *reversed(self.path)]))


def _mismatch(value: Any, go_type: str) -> _DecodeError:
    if isinstance(value, bool):
        found = "bool"
    elif isinstance(value, (int, float)):
        found = "number" if go_type not in _INT_LIMITS else f"number {json.dumps(value)}"
    else:
        found = "string" if isinstance(value, str) else "array" if isinstance(value, (list, tuple)) else "object"
    return _DecodeError(f"json: cannot unmarshal {found} into Go struct field {{field}} of type {go_type}")


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _mismatch(value, "string")
    return value if type(value) is str else str(value)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _mismatch(value, "bool")
    return value


def _int(go_type: str) -> _Decode:
    limit = _INT_LIMITS[go_type]

    def decode(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
            raise _mismatch(value, go_type)
        return value

    return decode


def _int_or_string(value: Any) -> Any:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value
    raise _mismatch(value, "int32")


@lru_cache(maxsize=4096)
def _canonical_quantity(value: str | int) -> str:
    return Quantity.parse(value.strip() if isinstance(value, str) else value).stored_text()


def _quantity(value: Any) -> str:
    if isinstance(value, float):
        value = repr(value)
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise _mismatch(value, "string")
    try:
        return _canonical_quantity(value)
    except QuantityError:
        text = str(value)
        digits = text.lstrip("+-").lstrip("0123456789.")
        if digits != text.lstrip("+-") and digits.isalnum():
            raise _DecodeError("unable to parse quantity's suffix") from None
        raise _DecodeError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


@lru_cache(maxsize=1024)
def _time(value: Any) -> str:
    """A time in UTC, in whole seconds."""
    if not isinstance(value, str):
        raise _mismatch(value, "string")
    return _moment(value, "2006-01-02T15:04:05Z07:00").strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1024)
def _micro_time(value: Any) -> str:
    """A time in UTC, with all digits of the microseconds."""
    if not isinstance(value, str):
        raise _mismatch(value, "string")
    layout = "2006-01-02T15:04:05.000000Z07:00"
    if value[19:20] != "." or not value[20:26].isdigit():
        raise _DecodeError(f'parsing time "{value}" as "{layout}": cannot parse "{value[19:]}" as ".000000"')
    return _moment(value, layout).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(text: str, layout: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None and text[10:11] == "T":
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _DecodeError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"')


def _bytes(value: Any) -> str:
    """Base64 text, unchanged."""
    text = _string(value)
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        good = re.match(r"(?:[A-Za-z0-9+/]{4})*", text)
        raise _DecodeError(f"illegal base64 data at input byte {good.end() if good else 0}") from None
    return text


_SCALARS: dict[str, _Decode] = {
    "string": _string,
    "bool": _bool,
    "int32": _int("int32"),
    "int64": _int("int64"),
    "IntOrString": _int_or_string,
    "Quantity": _quantity,
    "Time": _time,
    "MicroTime": _micro_time,
    "[]uint8": _bytes,
    "any": mutable_copy,
}


_TEXTS = ("string", "string!")


@dataclass(frozen=True, slots=True)
class _Field:
    decode: _Decode
    droppable: bool
    """Whether it is omitted when empty: an optional list or map."""
    type: str


@cache
def _schema() -> Any:
    return json.loads(files(__package__).joinpath("schema.json").read_text("utf-8"))


@cache
def _fields(structure: str) -> dict[str, _Field]:
    return {
        name: _Field(_decoder(text.removesuffix("!")), not text.endswith("!") and text.startswith(("[]", "map[")), text)
        for name, text in _schema()["structures"][structure].items()
    }


def _list_of(text: str) -> _Decode:
    decode_item, go_type = _decoder(text), "[]" + _go_name(text)

    def decode(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise _mismatch(value, go_type)
        return [decode_item({} if item is None else item) for item in value]

    return decode


def _map_of(text: str) -> _Decode:
    decode_item, go_type = _decoder(text), "map[string]" + _go_name(text)

    def decode(value: Any) -> JsonObject:
        if not isinstance(value, (dict, Mapping)):
            raise _mismatch(value, go_type)
        return {_string(key): decode_item(item) for key, item in value.items() if item is not None}

    return decode


def _go_name(text: str) -> str:
    """Name of a structure in Go's messages: ``v1.Container`` for ``core.v1.Container``."""
    return ".".join(text.split(".")[-2:])


def _structure(name: str) -> _Decode:
    fields: dict[str, _Field] = {}  # filled on first use, as structures may be recursive

    def decode(value: Any) -> JsonObject:
        if not isinstance(value, (dict, Mapping)):
            raise _mismatch(value, _go_name(name))
        if not fields:
            fields.update(_fields(name))
        result: JsonObject = {}
        for key, item in value.items():
            if item is None or (field := fields.get(key)) is None:
                continue
            if field.type in _TEXTS and type(item) is str:  # nearly all fields
                result[key] = item
                continue
            try:
                decoded = field.decode(item)
            except _DecodeError as error:
                error.extend_path(name, key)
                raise
            if decoded or not field.droppable:
                result[key] = decoded
        return result

    return decode


@cache
def _decoder(text: str) -> _Decode:
    if text in _SCALARS:
        return _SCALARS[text]
    if text.startswith("[]"):
        return _list_of(text.removeprefix("[]"))
    if text.startswith("map[string]"):
        return _map_of(text.removeprefix("map[string]"))
    return _structure(text)


def decode_object(resource_type: ResourceType, obj: Mapping[str, Any]) -> JsonObject:
    """The decoded object, which shares no part with the given object.

    Raises
    ------
    ApiError
        ``BadRequest`` if a field has the wrong type, or `apiVersion` and `kind` do not match.
    """
    kind, api_version = obj.get("kind") or resource_type.kind, obj.get("apiVersion") or resource_type.api_version
    version = str(api_version).rpartition("/")[2]
    handled = f'{kind} in version "{version}" cannot be handled as a {resource_type.kind}'
    if kind != resource_type.kind:
        raise bad_request(f"{handled}: it is of another kind")
    if api_version != resource_type.api_version:
        raise bad_request(f'{handled}: no kind "{kind}" is registered for version "{api_version}"')
    decoded: JsonObject = {"kind": resource_type.kind, "apiVersion": resource_type.api_version}
    try:
        decoded.update(_decoder(_root(resource_type))(obj))
    except _DecodeError as error:
        raise bad_request(f"{handled}: {error}") from None
    metadata = decoded.setdefault("metadata", {})
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)
    return decoded


def _root(resource_type: ResourceType) -> str:
    root: str = _schema()["kinds"][f"{resource_type.api_version}/{resource_type.kind}"]
    return root


def unknown_fields(resource_type: ResourceType, obj: Mapping[str, Any]) -> list[str]:
    """Paths of unknown fields, which are dropped, e.g. ``spec.containers[0].imagee``."""
    found: list[str] = []
    _collect_unknown(_root(resource_type), obj, "", found)
    return found


def _collect_unknown(text: str, value: Any, path: str, found: list[str]) -> None:
    text = text.removesuffix("!")
    if text.startswith("[]") and isinstance(value, list):
        for index, item in enumerate(value):
            _collect_unknown(text.removeprefix("[]"), item, f"{path}[{index}]", found)
    elif text.startswith("map[string]") and isinstance(value, Mapping):
        for key, item in value.items():
            _collect_unknown(text.removeprefix("map[string]"), item, f"{path}.{key}", found)
    elif "." in text and isinstance(value, Mapping):
        fields = _fields(text)
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            if key in fields:
                _collect_unknown(fields[key].type, item, where, found)
            else:
                found.append(where)
