"""Values that no part of an object should have, and where in an object they can be put."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

HOSTILE: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**400,
    1.5,
    float("inf"),
    float("nan"),
    "",
    " ",
    "\x00",
    "\ud800",
    "x" * 100_000,
    "9" * 5000,
    "10e399",
    "1e999999999",
    "1e-999999999",
    "-5",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:60.999999999Z",
    "2026-02-30T25:61:61Z",
    "2026-01-01T00:00:00+99:99",
    "hub.jupyter.org/shape",
    "metadata.name",
    [],
    {},
    [[]],
    [None],
    [{}],
    ["\udfff"],
    {"": None},
    {"a": {"b": ["c"]}},
    {f"k{each}": each for each in range(500)},
    [{"name": "x", "key": "x", "type": "Ready", "status": []}],
)


def deep(levels: int = 600) -> Any:
    """As deep as ``json.loads`` makes things."""
    return json.loads("[" * levels + "]" * levels)


def positions(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container within a value, with each of its keys."""
    pending = [value]
    while pending:
        item = pending.pop()
        entries = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
        for key, inner in list(entries):
            yield item, key
            pending.append(inner)


def copies(value: Any, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[tuple[Any, Any, Any]]:
    """A copy of a value for each position in it: the copy, and the container and the key of that position."""
    for number in range(len(list(positions(value)))):
        if is_wanted():
            copied = copy.deepcopy(value)
            yield copied, *next(itertools.islice(positions(copied), number, None))


def spoiled(value: Any, is_wanted: Callable[[], bool] = lambda: True) -> Iterator[tuple[Any, str]]:
    """Copies of a value with one hostile value each, and what it is and where; those that are wanted."""
    for hostile in (*HOSTILE, deep()):
        for copied, container, key in copies(value, is_wanted):
            container[key] = hostile
            yield copied, f"{key}: {str(hostile)[:50]}"
