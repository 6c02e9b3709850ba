"""Caches of bounded size; ``python -m tests.bench.caches`` shows what each of them gains."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Cache", "CacheSizes"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(dict[K, V]):
    """A dict that `keep` empties when it is full, because tenants can make ever new keys.

    Parameters
    ----------
    size
        The most entries; 0 keeps none.
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
    """The most entries of each cache of a `DeviceState`; 0 switches it off.

    Attributes
    ----------
    claim_keys
        Keys of claim objects, from which shapes are recognised.
    partitions
        Partitions of the nodes, one for each set of attributes that claims look at.
    class_verdicts
        Verdicts of one node class, by claim shape and use of common devices.
    single_device
        Verdicts of one claim shape that asks for a single device, by what matters to it.
    fitting_classes
        Claim shapes whose fitting node classes are followed from change to change.
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
