"""Stored JSON of which a program knows only a part: another version wrote it, or a person did."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


def read_json(text: object) -> Any:
    """The value of a JSON text; None for what is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def text_in(found: object, longest: int) -> str:
    """A text of at most some characters. Raises ValueError for another value."""
    if not isinstance(found, str) or len(found) > longest:
        raise ValueError(found)
    return found


def moment_in(found: object) -> datetime:
    """A time, in UTC; without a zone it is taken to be in UTC. Raises ValueError for another value."""
    if not isinstance(found, str):
        raise ValueError(found)
    moment = datetime.fromisoformat(found)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


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
    if not (isinstance(new, list) and isinstance(known, list) and isinstance(stored, list)):
        return _merged(new, known, stored)
    before, there = ({identity(each): each for each in items} for items in (known, stored))
    keys = [identity(each) for each in new]
    both = before.keys() & there.keys()
    items = (
        _merged(each, before[key], there[key]) if key in both else each for key, each in zip(keys, new, strict=True)
    )
    written = {*before, *keys}
    return [*(each for key, each in there.items() if key not in written), *items]


def _merged(new: Any, known: Any, stored: Any) -> Any:
    if not (isinstance(new, dict) and isinstance(known, dict) and isinstance(stored, dict)):
        return new
    more = {key: each for key, each in stored.items() if key not in known and key not in new}
    both = known.keys() & stored.keys()
    return {key: _merged(each, known[key], stored[key]) if key in both else each for key, each in new.items()} | more
