"""Dictionaries whose changes can be reverted."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import partial
from itertools import islice
from typing import Final, Generic, TypeVar

from dra_spawner.simulator.model.journal import Journal

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_REMEMBERED: Final = 10_000
"""Maximum of changes whose keys are known."""


class ChangeLog(Generic[K]):
    """The keys of the latest changes.

    Attributes
    ----------
    count
        Number of changes so far.
    """

    __slots__ = ("_latest", "count")

    def __init__(self) -> None:
        self._latest: deque[K] = deque(maxlen=MAX_REMEMBERED)
        self.count = 0

    def note(self, key: K) -> None:
        """Note a change of one key."""
        self.count += 1
        self._latest.append(key)

    def note_all(self) -> None:
        """Note a change that may concern any key."""
        self.count += 1
        self._latest.clear()

    def since(self, count: int) -> dict[K, None] | None:
        """Keys that have changed since `count` had this value; None if that is not known."""
        more = self.count - count
        return dict.fromkeys(islice(reversed(self._latest), more)) if more <= len(self._latest) else None


class Table(Mapping[K, V], Generic[K, V]):
    """A mapping of immutable values; every change goes into the journal.

    The keys are in the order of their last insertion, which has no meaning.

    Attributes
    ----------
    log
        Keys of items that were put or removed; reverts count, too.
    """

    __slots__ = ("_items", "_journal", "log")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._items: dict[K, V] = {}
        self.log = ChangeLog[K]()

    @property
    def changes(self) -> int:
        """Number of times that an item was put or removed."""
        return self.log.count

    def changed_since(self, changes: int) -> dict[K, None] | None:
        """Keys whose items may have changed since `changes` had this value; None if that is not known."""
        return self.log.since(changes)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    # The inherited methods would run Python code for every item.

    def keys(self) -> KeysView[K]:
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def items(self) -> ItemsView[K, V]:
        return self._items.items()

    def put(self, key: K, value: V) -> None:
        """Add or replace an item."""
        undo = partial(self._set, key, self._items[key]) if key in self._items else partial(self._drop, key)
        self._set(key, value)
        self._journal.record(undo)

    def discard(self, key: K) -> V | None:
        """Remove an item and return it; None if there is none."""
        if key not in self._items:
            return None
        value = self._items[key]
        self._drop(key)
        self._journal.record(partial(self._set, key, value))
        return value

    def _set(self, key: K, value: V) -> None:
        self._items[key] = value
        self.log.note(key)

    def _drop(self, key: K) -> None:
        del self._items[key]
        self.log.note(key)


class Groups(Generic[K, V]):
    """Sets of values by a key, for example the claims of each pod; values keep the order of insertion."""

    __slots__ = ("_groups",)

    def __init__(self, journal: Journal) -> None:
        self._groups: Table[K, tuple[V, ...]] = Table(journal)

    def __getitem__(self, key: K) -> tuple[V, ...]:
        return self._groups.get(key, ())

    def __iter__(self) -> Iterator[K]:
        return iter(self._groups)

    def add(self, key: K, value: V) -> None:
        """Add a value, which the group must not have yet."""
        self._groups.put(key, (*self[key], value))

    def remove(self, key: K, value: V) -> None:
        left = tuple(item for item in self[key] if item != value)
        if left:
            self._groups.put(key, left)
        else:
            self._groups.discard(key)
