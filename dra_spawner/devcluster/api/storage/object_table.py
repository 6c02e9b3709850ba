"""The objects of one kind, in the API's order."""

from bisect import bisect_right, insort
from collections.abc import Iterator

from dra_spawner.common.json_types import JsonObject

ObjectKey = tuple[str, str]
"""Namespace (empty for cluster-wide kinds) and name."""


class ObjectTable:
    """Objects by namespace and name, iterated in the byte order of both, as in etcd."""

    __slots__ = ("_names", "_namespaces", "_objects")

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._namespaces: list[str] = []
        self._names: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> JsonObject | None:
        """The object, or None."""
        return self._objects.get((namespace, name))

    def put(self, namespace: str, name: str, obj: JsonObject) -> None:
        """Insert or replace an object."""
        if (namespace, name) not in self._objects:
            if namespace not in self._names:
                insort(self._namespaces, namespace)
                self._names[namespace] = []
            insort(self._names[namespace], name)
        self._objects[namespace, name] = obj

    def remove(self, namespace: str, name: str) -> None:
        del self._objects[namespace, name]
        names = self._names[namespace]
        del names[bisect_right(names, name) - 1]
        if not names:
            del self._names[namespace]
            del self._namespaces[bisect_right(self._namespaces, namespace) - 1]

    def values(self, namespace: str | None = None, after: ObjectKey | None = None) -> Iterator[JsonObject]:
        """The objects in order, of one namespace or all, after the key `after`."""
        if namespace is None:
            first = 0 if after is None else bisect_right(self._namespaces, after[0])
            namespaces = self._namespaces[first:]
            if after is not None and after[0] in self._names:
                namespaces.insert(0, after[0])
        else:
            namespaces = [namespace] if namespace in self._names else []
        for each in namespaces:
            names = self._names[each]
            start = bisect_right(names, after[1]) if after is not None and after[0] == each else 0
            for name in names[start:]:
                yield self._objects[each, name]
