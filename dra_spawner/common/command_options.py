"""The options of a command, from the arguments of its command line."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def options_of(kind: type[T], arguments: argparse.Namespace, **others: object) -> T:
    """An object of a dataclass: each field has the value of the argument with its name, a list as a tuple.

    A field `as_json` says whether the argument ``--format`` is ``json``.

    Parameters
    ----------
    others
        Values of fields without such an argument.
    """
    given: dict[str, Any] = vars(arguments) | {"as_json": getattr(arguments, "format", "") == "json"} | others
    values = {each.name: given[each.name] for each in fields(kind) if each.name in given}  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def whole_number(text: str) -> int:
    """The number of an argument, 0 or more."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)
