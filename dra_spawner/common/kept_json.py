"""Stored JSON of which a program knows only a part: another version wrote it, or a person did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any


def by_fields(*names: str) -> Callable[[Any], str]:
    """What identifies the objects of a list: some of their fields. What is no such object is its own identity."""

    def identity(item: Any) -> str:
        is_known = isinstance(item, dict) and all(name in item for name in names)
        return json.dumps([item[name] for name in names] if is_known else [item], sort_keys=True, default=str)

    return identity


def with_unknown(new: Any, known: Any, stored: Any, identity: Callable[[Any], str]) -> Any:
    """What is to be stored: a new value, with all that is stored and was not understood.

    Parameters
    ----------
    new
        The value as this program writes it.
    known
        The stored value as this program writes it after reading it: what it lacks was not understood.
    stored
        The present value.
    identity
        Of the items of a list; lists within them are taken as a whole.
    """
    if isinstance(new, dict) and isinstance(known, dict) and isinstance(stored, dict):
        return _merged(new, known, stored)
    if isinstance(new, list) and isinstance(known, list) and isinstance(stored, list):
        before, there = ({identity(each): each for each in items} for items in (known, stored))
        merged = {}
        for each in new:
            key = identity(each)
            merged[key] = _merged(each, before[key], there[key]) if key in before and key in there else each
        rest = [each for key, each in there.items() if key not in before and key not in merged]
        return [*rest, *_in_order(new, merged, identity)]
    return new


def _in_order(new: Sequence[Any], merged: dict[str, Any], identity: Callable[[Any], str]) -> list[Any]:
    return [merged[identity(each)] for each in new]


def _merged(new: Any, known: Any, stored: Any) -> Any:
    if not (isinstance(new, dict) and isinstance(known, dict) and isinstance(stored, dict)):
        return new
    more = {key: each for key, each in stored.items() if key not in known and key not in new}
    both = known.keys() & stored.keys()
    return {key: _merged(each, known[key], stored[key]) if key in both else each for key, each in new.items()} | more
