"""Objects that remember which of their fields somebody looked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

_NAMED: Final = "labels annotations attributes counters data allocatable limits requests consumedCapacity overhead"
_MAPS: Final = frozenset((*_NAMED.split(), "matchLabels", "nodeSelector"))
"""Fields whose keys are names that somebody chose: any of them stands for all."""


class Recorded(dict[str, Any]):
    """A JSON object that writes down each key that is looked for in vain, and the function that looks.

    Its values are recording objects, too, so that a copy of it goes on recording.
    """

    __slots__ = ("missed", "path")

    def __init__(self, obj: Json, missed: dict[str, str], path: str = "") -> None:
        name = path.rpartition(".")[2]
        # Two names are those of maps in one kind, and of objects in another.
        is_map = name in _MAPS or (name == "capacity" and "requests" not in obj)
        is_map = is_map and "nodeSelectorTerms" not in obj
        items = {key: _recorded(item, missed, f"{path}.{'*' if is_map else key}") for key, item in obj.items()}
        super().__init__(items)
        self.missed, self.path = missed, path

    def __getitem__(self, key: str) -> Any:
        self._look(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._look(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._look(key)
        return super().get(key, default)

    def _look(self, key: object) -> None:
        if not super().__contains__(key):
            self.missed.setdefault(f"{self.path}.{key}", _caller())


def _recorded(value: Any, missed: dict[str, str], path: str) -> Any:
    if isinstance(value, dict):
        return Recorded(value, missed, path)
    if isinstance(value, list):
        return [_recorded(item, missed, f"{path}[]") for item in value]
    return value


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Each field that an object has, as `Recorded` calls it."""
    if isinstance(value, Recorded):
        for key, item in value.items():
            inner = item.path if isinstance(item, Recorded) else f"{value.path}.{key}"
            yield f"{value.path}.{key}"
            yield inner
            yield from fields_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from fields_of(item)


def _caller() -> str:
    """The nearest function of the package outside `decoding`, whose readers serve all."""
    frame = sys._getframe(1)
    while (above := frame.f_back) is not None:
        frame = above
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("dra_spawner.") and not module.endswith(".decoding"):
            return f"{module}.{frame.f_code.co_name}"
    return "a test"
