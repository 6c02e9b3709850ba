"""Looking into maps, lists and optionals: ``a.b``, ``a[b]``, ``a.?b``, ``a[?b]`` and ``has(a.b)``."""

from __future__ import annotations

from typing import Any

from dra_spawner.dra.cel.errors import EvaluationError
from dra_spawner.dra.cel.values import ABSENT, NONE, BoolKey, DefaultMap, OptionalValue, Uint, Value, map_key, type_name


def missing(key: Value) -> EvaluationError:
    """The error about a key that is not there."""
    return EvaluationError(f"no such key: {_shown(key)}")


def _shown(key: Value) -> str:
    if isinstance(key, bool | BoolKey):
        return "true" if key is True else "false"
    return str(int(key)) if type(key) is Uint else str(key)


def find(container: Value, key: Value) -> Value:
    """What is under the key, or ABSENT.

    Raises
    ------
    EvaluationError
        When a list is asked for something that is no index.
    """
    if type(container) is DefaultMap:
        return container[key] if type(key) is str else {}
    if type(container) is dict:
        return container.get(key if type(key) is str else map_key(key), ABSENT)
    if type(container) is list:
        index = _index(key)
        return container[index] if 0 <= index < len(container) else ABSENT
    return ABSENT


def lookup(container: Value, key: Value) -> Value:
    """``container[key]`` and ``container.key``; an optional container makes the result optional.

    Raises
    ------
    EvaluationError
        When there is nothing under the key.
    """
    if type(container) is OptionalValue:
        return lookup_optional(container, key)
    value = find(container, key)
    if value is not ABSENT:
        return value
    if type(container) is list:
        raise EvaluationError(f"index out of bounds: {_shown(key)}")
    raise missing(key)


def lookup_optional(container: Value, key: Value) -> OptionalValue:
    """``container[?key]`` and ``container.?key``.

    Raises
    ------
    EvaluationError
        When a list is asked for something that is no index.
    """
    if type(container) is OptionalValue:
        if not container.present:
            return NONE
        container = container.value
    value = find(container, key)
    return NONE if value is ABSENT else OptionalValue(value)


def present(container: Value, key: str) -> bool:
    """``has(container.key)``.

    Raises
    ------
    EvaluationError
        When the container is a list.
    """
    if type(container) is OptionalValue:
        if not container.present:
            return False
        container = container.value
    return find(container, key) is not ABSENT


def _index(key: Any) -> int:
    if type(key) in (int, Uint):
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
