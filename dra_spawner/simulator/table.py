"""Dictionaries whose changes can be reverted."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import partial
from typing import Generic, TypeVar

from dra_spawner.simulator.journal import Journal

__all__ = ["Groups", "Table"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Table(Mapping[K, V], Generic[K, V]):
    """A mapping of immutable values; every change goes into the journal.

    The order of the keys is that of their last insertion and means nothing.
    """

    __slots__ = ("_items", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._items: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    # As inherited these would come through Python for every single item.

    def keys(self) -> KeysView[K]:
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        return self._items.items()

    def put(self, key: K, value: V) -> None:
        """Add or replace an item."""
        if key in self._items:
            undo = partial(self._items.__setitem__, key, self._items[key])
            self._items[key] = value
            self._journal.record(undo)
        else:
            self._items[key] = value
            self._journal.record(partial(self._items.__delitem__, key))

    def discard(self, key: K) -> V | None:
        """Remove an item and return it; None if there is none."""
        if key not in self._items:
            return None
        value = self._items.pop(key)
        self._journal.record(partial(self._items.__setitem__, key, value))
        return value


class Groups(Generic[K, V]):
    """Sets of values by a key, say the claims that belong to each pod; values keep the order of insertion."""

    __slots__ = ("_groups",)

    def __init__(self, journal: Journal) -> None:
        self._groups: Table[K, tuple[V, ...]] = Table(journal)

    def __getitem__(self, key: K) -> tuple[V, ...]:
        return self._groups.get(key, ())

    def __iter__(self) -> Iterator[K]:
        return iter(self._groups)

    def add(self, key: K, value: V) -> None:
        """Add a value to a group that does not have it."""
        self._groups.put(key, (*self[key], value))

    def remove(self, key: K, value: V) -> None:
        """Remove a value from its group."""
        left = tuple(item for item in self[key] if item != value)
        if left:
            self._groups.put(key, left)
        else:
            self._groups.discard(key)
