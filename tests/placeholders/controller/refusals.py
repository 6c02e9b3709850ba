"""Settings that are refused, in tables: a test lists all messages that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dra_spawner.profiles.syntax.settings_reader import SettingsError


def refusal(read: Callable[[Any], object], value: Any) -> str:
    """The message with which a value is refused; empty if it is accepted."""
    try:
        read(value)
    except SettingsError as error:
        return str(error)
    return ""


def wrong_refusals(read: Callable[[Any], object], rows: Iterable[tuple[Any, str]]) -> dict[str, str]:
    """Messages that do not contain what they should, by what they should contain."""
    found = ((problem, refusal(read, value)) for value, problem in rows)
    return {problem: message for problem, message in found if problem not in message}
