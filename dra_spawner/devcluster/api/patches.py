"""The API's three kinds of patches, applied to JSON values: JSON patch, merge patch, strategic merge patch.

No function changes its arguments; results may share parts with them.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from dra_spawner.common.json_types import JsonObject
from dra_spawner.devcluster.api.json_values import mutable_copy


class PatchType(StrEnum):
    """Kinds of patches by their media types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class PatchError(ValueError):
    """Raised for a patch that is malformed or does not apply.

    Parameters
    ----------
    well_formed
        False if the patch itself is malformed (status 400); True if it does not apply to this object (422).
    """

    def __init__(self, message: str, *, well_formed: bool = False) -> None:
        super().__init__(message)
        self.well_formed = well_formed


def apply_patch(obj: JsonObject, patch: Any, patch_type: PatchType) -> JsonObject:
    """The object with the patch applied.

    Raises
    ------
    PatchError
        When the patch is malformed or does not apply to the object.
    """
    if patch_type is PatchType.JSON:
        result = json_patch(obj, patch)
        if not isinstance(result, dict):
            raise PatchError("the patched document is not an object", well_formed=True)
        return result
    if not isinstance(patch, dict):
        raise PatchError(f"cannot unmarshal a JSON {_json_kind(patch)} into an object")
    if patch_type is PatchType.MERGE:
        merged: JsonObject = merge_patch(obj, patch)
        return merged
    return strategic_merge_patch(obj, patch, obj.get("kind", ""))


def _json_kind(value: Any) -> str:
    names = {list: "array", dict: "object", str: "string", bool: "boolean", int: "number", float: "number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "null")


# --- JSON patch (RFC 6902) ---------------------------------------------------------------------------


def json_patch(document: Any, operations: Any) -> Any:
    """The document after a JSON patch (RFC 6902); if one operation fails, the whole patch fails."""
    if not isinstance(operations, list):
        raise PatchError(f"cannot unmarshal a JSON {_json_kind(operations)} into a JSON patch")
    result = mutable_copy(document)
    for operation in operations:
        if not isinstance(operation, dict) or operation.get("op") not in _OPERATIONS:
            raise PatchError(f"unexpected kind of operation: {operation!r}", well_formed=True)
        result = _OPERATIONS[operation["op"]](result, operation)
    return result


def _pointer(operation: JsonObject, member: str = "path") -> list[str]:
    """The parts of a JSON pointer (RFC 6901)."""
    text = operation.get(member)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{operation['op']} operation: invalid {member}: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _failed(operation: JsonObject, what: str) -> PatchError:
    return PatchError(
        f"{operation['op']} operation does not apply: doc is missing {what}: {operation.get('path')}", well_formed=True
    )


def _index(operation: JsonObject, part: str, length: int, *, insert: bool = False) -> int:
    if insert and part == "-":
        return length
    if not part.isdigit() or (len(part) > 1 and part[0] == "0"):
        raise _failed(operation, "key")
    index = int(part)
    if index > length or (index == length and not insert):
        raise _failed(operation, "key")
    return index


def _value_at(document: Any, parts: Sequence[str], operation: JsonObject) -> Any:
    for part in parts:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(operation, part, len(document))]
        else:
            raise _failed(operation, "path")
    return document


def _put(document: Any, parts: list[str], value: Any, operation: JsonObject) -> Any:
    if not parts:
        return value
    parent = _value_at(document, parts[:-1], operation)
    if isinstance(parent, dict):
        parent[parts[-1]] = value
    elif isinstance(parent, list):
        parent.insert(_index(operation, parts[-1], len(parent), insert=True), value)
    else:
        raise _failed(operation, "path")
    return document


def _delete_at(document: Any, parts: list[str], operation: JsonObject) -> Any:
    if not parts:
        return None
    parent = _value_at(document, parts[:-1], operation)
    if isinstance(parent, dict) and parts[-1] in parent:
        del parent[parts[-1]]
    elif isinstance(parent, list):
        del parent[_index(operation, parts[-1], len(parent))]
    else:
        raise _failed(operation, "key")
    return document


def _value_of(operation: JsonObject) -> Any:
    if "value" not in operation:
        raise PatchError(f"{operation['op']} operation: missing value")
    return mutable_copy(operation["value"])


def _add(document: Any, operation: JsonObject) -> Any:
    return _put(document, _pointer(operation), _value_of(operation), operation)


def _remove(document: Any, operation: JsonObject) -> Any:
    return _delete_at(document, _pointer(operation), operation)


def _replace(document: Any, operation: JsonObject) -> Any:
    """Replace a value; as in the API server's library, a missing member is no error."""
    parts, value = _pointer(operation), _value_of(operation)
    if parts and isinstance(parent := _value_at(document, parts[:-1], operation), list):
        parent[_index(operation, parts[-1], len(parent))] = value
        return document
    return _put(document, parts, value, operation)


def _move(document: Any, operation: JsonObject) -> Any:
    source = _pointer(operation, "from")
    value = _value_at(document, source, operation)
    return _put(_delete_at(document, source, operation), _pointer(operation), value, operation)


def _copy(document: Any, operation: JsonObject) -> Any:
    value = mutable_copy(_value_at(document, _pointer(operation, "from"), operation))
    return _put(document, _pointer(operation), value, operation)


def _test(document: Any, operation: JsonObject) -> Any:
    expected = operation.get("value")
    try:
        found = _value_at(document, _pointer(operation), operation)
    except PatchError:
        found = None  # as in the API server's library, an absent value equals null
    if not _same(found, expected):
        raise PatchError(f"testing value {operation['path']} failed: test failed", well_formed=True)
    return document


def _same(left: Any, right: Any) -> bool:
    """Whether JSON values are equal; unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[Any, JsonObject], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


# --- merge patch (RFC 7386) --------------------------------------------------------------------------


def merge_patch(document: Any, patch: Any) -> Any:
    """The document after a JSON merge patch (RFC 7386): null removes a member, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


# --- strategic merge patch ---------------------------------------------------------------------------

_MERGE_KEYS: dict[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Merge keys of lists of objects: ``x-kubernetes-patch-merge-key`` in the API's OpenAPI document."""

_MERGED_SETS = ("finalizers", "podCIDRs")
_SERVICE_PORTS = "port"


def _merge_key(kind: str, path: tuple[str, ...]) -> str | None:
    """The merge key of the list at this path; None if patches replace the list."""
    name = path[-1]
    if kind == "ServiceAccount" and name == "imagePullSecrets":
        return None
    if name == "ports" and kind == "Service":
        return _SERVICE_PORTS if path == ("spec", "ports") else None
    if name == "conditions" and "devices" in path:  # of a device in a claim's status
        return None
    return _MERGE_KEYS.get(name)


def strategic_merge_patch(obj: JsonObject, patch: JsonObject, kind: str) -> JsonObject:
    """The object after a strategic merge patch, with the merge keys of the object's `kind`.

    Supports ``$patch: delete|replace|merge``, ``$retainKeys``, ``$setElementOrder/…`` and
    ``$deleteFromPrimitiveList/…``.
    """
    return _merge_object(obj, patch, kind, ())


def _merge_object(obj: Any, patch: JsonObject, kind: str, path: tuple[str, ...]) -> JsonObject:
    directive = patch.get("$patch", "merge")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise PatchError(f"Unknown patch type found: {directive}")
    result: JsonObject = dict(obj) if isinstance(obj, dict) else {}
    retained = patch.get("$retainKeys")
    if retained is not None:
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            _apply_list_directive(result, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(result.get(key), value, kind, (*path, key))
    for key, order in patch.items():
        if key.startswith("$setElementOrder/"):
            _reorder(result, obj, key.partition("/")[2], order, kind, path)
    return result


def _merge_value(current: Any, patch: Any, kind: str, path: tuple[str, ...]) -> Any:
    if isinstance(patch, dict):
        if path == ("spec", "selector") and kind == "PodDisruptionBudget":
            return patch
        return _merge_object(current, patch, kind, path)
    if isinstance(patch, list):
        if path[-1] in _MERGED_SETS and path[0] != "spec":
            return _ordered(list(dict.fromkeys([*(current or ()), *patch])), patch, current or [], lambda entry: entry)
        merge_key = _merge_key(kind, path)
        if merge_key is not None:
            return _merge_list(current or [], patch, merge_key, kind, path)
    return patch


def _merge_list(current: list[Any], patch: list[Any], merge_key: str, kind: str, path: tuple[str, ...]) -> list[Any]:
    entries = [entry for entry in patch if entry != {"$patch": "replace"}]
    if len(entries) != len(patch):
        return entries
    result = list(current)
    fresh: list[Any] = []
    for entry in entries:
        if not isinstance(entry, dict) or merge_key not in entry:
            raise PatchError(f"map: {entry!r} does not contain declared merge key: {merge_key}")
        key = entry[merge_key]
        place = next((i for i, old in enumerate(result) if old.get(merge_key) == key), None)
        if entry.get("$patch") == "delete":
            result = [old for old in result if old.get(merge_key) != key]
        elif place is None:
            fresh.append(_merge_object({}, entry, kind, path))
        else:
            result[place] = _merge_object(result[place], entry, kind, path)
    mentioned = [entry[merge_key] for entry in entries if entry.get("$patch") != "delete"]
    return _ordered([*result, *fresh], mentioned, current, lambda entry: entry[merge_key])


def _ordered(merged: list[Any], mentioned: list[Any], current: list[Any], key_of: Callable[[Any], Any]) -> list[Any]:
    """Merged entries in the order of the patch; other entries keep their order among their neighbours.

    An entry that the patch does not mention goes before the first mentioned entry that it precedes in the present list
    (``mergeSortedSlice`` of ``k8s.io/apimachinery``).
    """
    place = {key_of(entry): index for index, entry in enumerate(current)}
    rank = {key: index for index, key in reversed(list(enumerate(mentioned)))}
    named = sorted((entry for entry in merged if key_of(entry) in rank), key=lambda entry: rank[key_of(entry)])
    others = [entry for entry in merged if key_of(entry) not in rank]
    result: list[Any] = []
    for entry in named:
        at = place.get(key_of(entry))
        while others and at is not None and place.get(key_of(others[0]), at) < at:
            result.append(others.pop(0))
        result.append(entry)
    return result + others


def _apply_list_directive(result: JsonObject, directive: str, values: Any) -> None:
    name, _, field = directive.partition("/")
    if name == "$deleteFromPrimitiveList" and field in result:
        result[field] = [value for value in result[field] if value not in values]


def _reorder(result: JsonObject, current: Any, field: str, order: list[Any], kind: str, path: tuple[str, ...]) -> None:
    """Sort the entries that `order` names."""
    if field not in result:
        return
    merge_key = _merge_key(kind, (*path, field))

    def key_of(entry: Any) -> Any:
        return entry.get(merge_key) if merge_key and isinstance(entry, dict) else entry

    present = current.get(field) if isinstance(current, dict) else None
    result[field] = _ordered(result[field], [key_of(entry) for entry in order], present or [], key_of)
