"""Sizes and costs as the API server estimates them: unsigned 64-bit numbers that stop at the highest.

(``checker/cost.go`` of cel-go, and the size estimator of ``k8s.io/dynamic-resource-allocation/cel``.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

#: The highest number; also stands for "unknown".
MAX: Final = 2**64 - 1


def add(one: int, other: int) -> int:
    """The sum."""
    return min(one + other, MAX)


def multiply(one: int, other: int) -> int:
    """The product."""
    return min(one * other, MAX)


def scale(number: int, factor: float) -> int:
    """The product with a factor, rounded up."""
    product = float(number) * factor
    return MAX if product >= 2.0**64 else math.ceil(product)


def wrap(number: int) -> int:
    """The number as unchecked 64-bit arithmetic leaves it."""
    return number & MAX


@dataclass(frozen=True, slots=True)
class Size:
    """Range of what ``size()`` may return."""

    low: int
    high: int

    def plus(self, other: Size) -> Size:
        """Size of both together."""
        return Size(add(self.low, other.low), add(self.high, other.high))

    def times(self, other: Size) -> Size:
        """Size of one for each of the other."""
        return Size(multiply(self.low, other.low), multiply(self.high, other.high))

    def union(self, other: Size) -> Size:
        """The range over both."""
        return Size(min(self.low, other.low), max(self.high, other.high))


UNKNOWN: Final = Size(0, MAX)


def fixed(size: int) -> Size:
    """A size that is known."""
    return Size(size, size)


@dataclass(frozen=True, slots=True)
class Entries:
    """Sizes of a list's elements, or of a map's keys and values."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: Entries | None) -> Entries | None:
        """The ranges over both; None when nothing is known of the other."""
        if other is None:
            return None
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class Path:
    """Steps from a variable to a value.

    As in Go, where estimates depend on it, paths share memory: two that extend one path may get one last step.
    """

    __slots__ = ("_capacity", "_length", "_steps")

    def __init__(self, steps: list[str], length: int, capacity: int) -> None:
        self._steps = steps
        self._length = length
        self._capacity = capacity

    @classmethod
    def start(cls, name: str) -> Path:
        return cls([name], 1, 1)

    @property
    def steps(self) -> list[str]:
        """The names, the variable's first."""
        return self._steps[: self._length]

    def extended(self, step: str) -> Path:
        """The path one step on."""
        if self._length == self._capacity:
            return Path([*self.steps, step], self._length + 1, 2 * self._capacity)
        self._steps[self._length :] = [step, *self._steps[self._length + 1 :]]
        return Path(self._steps, self._length + 1, self._capacity)

    def copied(self, step: str) -> Path:
        """The path one step on, in memory of its own."""
        return Path([*self.steps, step], self._length + 1, self._length + 1)


_MAX_ENTRIES: Final = 32  # ResourceSliceMaxAttributesAndCapacitiesPerDevice
_MAX_NAME: Final = {1: 63, 2: 32}  # DeviceMaxDomainLength, DeviceMaxIDLength
_MAX_VALUE: Final = 64  # DeviceAttributeMaxValueLength; a list has at most 48 values
_FIELDS: Final = {"driver": 63, "allowMultipleAllocations": 1}


def device_size(path: Path | None) -> Size | None:
    """Size of what a path from the variable ``device`` leads to, None when nothing is known of it."""
    steps = [] if path is None else path.steps
    if not steps or steps[0] != "device":
        return None
    match steps[1:]:
        case []:
            return Size(0, 0)
        case [("driver" | "allowMultipleAllocations") as field]:
            return Size(0, _FIELDS[field])
        case [("attributes" | "capacity")] | [("attributes" | "capacity"), "@items" | "@values"]:
            return Size(0, _MAX_ENTRIES)
        case [("attributes" | "capacity"), *middle, "@keys"] if middle in ([], ["@items"], ["@values"]):
            return Size(0, _MAX_NAME[1 + len(middle)])
        case ["attributes", "@items" | "@values", _]:
            return Size(0, _MAX_VALUE)
        case ["capacity", "@items" | "@values", "@items" | "@values"]:
            return Size(0, 0)
    return None
