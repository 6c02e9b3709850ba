"""Read-only JSON values.

Each stored object is one immutable value, which readers, watches and lists share without a copy. A change creates a new
value, which shares the unchanged parts with the old one.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from dra_spawner.common.json_types import JsonObject


class FrozenDict(dict[str, Any]):
    """A JSON object that cannot be changed, at any depth.

    It compares, encodes and unpacks like a ``dict``. ``copy.deepcopy`` and `mutable_copy` return a plain ``dict``.
    """

    __slots__ = ()

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("objects of the store are read-only: change a mutable_copy() of it")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __copy__(self) -> JsonObject:
        return dict(self)

    def __deepcopy__(self, _memo: object) -> JsonObject:
        return {key: mutable_copy(item) for key, item in self.items()}

    def __reduce__(self) -> tuple[type, tuple[JsonObject]]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A JSON array that cannot be changed; see `FrozenDict`."""

    __slots__ = ()

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("objects of the store are read-only: change a mutable_copy() of it")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, _memo: object) -> list[Any]:
        return [mutable_copy(item) for item in self]

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


_FROZEN_TYPES = frozenset({str, int, bool, type(None), FrozenDict, FrozenList})


def freeze(value: Any) -> Any:
    """A read-only JSON value; parts that are read-only already are shared, not copied.

    Raises
    ------
    TypeError
        If a part of the value is not JSON.
    """
    kind = type(value)
    if kind in _FROZEN_TYPES:
        return value
    if kind is dict:  # saves a call for each scalar
        return FrozenDict({k: item if type(item) in _FROZEN_TYPES else freeze(item) for k, item in value.items()})
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([freeze(item) for item in value])
    if isinstance(value, str):
        return str(value)  # members of a StrEnum
    if isinstance(value, (int, float)):
        return value
    raise TypeError(f"not a JSON value: {value!r}")


def mutable_copy(value: Any) -> Any:
    """A copy of a JSON value as plain dicts and lists, which shares no part with the value."""
    if isinstance(value, dict):
        return {key: mutable_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mutable_copy(item) for item in value]
    return value
