"""Caches of bounded size; ``python -m tests.bench.caches`` shows the gain of each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(dict[K, V]):
    """A dict that `keep` empties when it is full, because users can cause ever new keys.

    Parameters
    ----------
    size
        Maximum number of entries; 0 keeps none.
    """

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def keep(self, key: K, value: V) -> V:
        """Store a value.

        Returns
        -------
        V
            The value.
        """
        if len(self) >= self._size:
            self.clear()
        if self._size:
            self[key] = value
        return value


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Maximum number of entries of each cache of a `DeviceState`; 0 switches it off.

    Attributes
    ----------
    claim_keys
        Keys of claim objects, from which shapes are recognised.
    partitions
        Partitions of the nodes, one for each set of attributes that claims read.
    class_verdicts
        Verdicts of one node class, by claim shape and use of common devices.
    single_device
        Verdicts of one claim shape that asks for a single device, by `SingleDeviceKey`.
    fitting_classes
        Claim shapes whose fitting node classes are updated after each change.
    answers
        Answers about all nodes, kept until something changes.
    """

    shapes: int = 4096
    claim_keys: int = 4096
    partitions: int = 16
    class_verdicts: int = 1_000
    single_device: int = 10_000
    fitting_classes: int = 1_000
    answers: int = 1_000
