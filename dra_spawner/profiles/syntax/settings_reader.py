"""Reading settings of the service key by key, noting every problem instead of stopping at the first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import date, tzinfo
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from dra_spawner.profiles.syntax.problems import Problem, shown

DAY_ALLOWED: Final = 'a day like "2026-12-24"'
_LONGEST_TEXT: Final = 250
_LONGEST_KEY: Final = 80

_Value = TypeVar("_Value")


class SettingsError(ValueError):
    """Raised for settings that make no sense, with every problem.

    Attributes
    ----------
    problems
        Path, found and allowed value of each.
    """

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


class SettingsReader:
    """Reads one mapping. A wrong value is noted, and the default is returned for it; ``null`` counts as missing.

    Parameters
    ----------
    value
        The mapping; anything else is noted, and read as an empty one.
    path
        Where it stands.
    allowed
        What may stand there, as the rest of a sentence.
    problems
        Gets what is wrong; a list of its own by default.
    """

    def __init__(self, value: object, path: str, allowed: str, problems: list[Problem] | None = None) -> None:
        self.path = path
        self.problems: list[Problem] = [] if problems is None else problems
        self.is_mapping = isinstance(value, Mapping)
        self.given: dict[object, object] = {}
        self._known: dict[str, None] = {}
        if isinstance(value, Mapping):
            self.given = {key: each for key, each in value.items() if each is not None}
        else:
            self.problems.append(Problem(path, shown_setting(value), allowed))

    def refuse(self, key: object, allowed: str, found: str | None = None) -> None:
        """Note a wrong or missing value; `found` is its text, where the value is not shown as it is."""
        if found is None:
            found = shown_setting(self.given[key]) if key in self.given else ""
        self.problems.append(Problem(self.path_of(key), found, allowed))

    def refuse_itself(self, found: str, allowed: str) -> None:
        """Note that the mapping as a whole is wrong."""
        self.problems.append(Problem(self.path, found, allowed))

    def inner(self, key: object, value: object, allowed: str) -> SettingsReader:
        """A reader of a mapping within this one."""
        return SettingsReader(value, self.path_of(key), allowed, self.problems)

    def path_of(self, key: object) -> str:
        """Where the value of a key stands."""
        is_plain = isinstance(key, str) and key.isprintable()
        return f"{self.path}.{str(key)[:_LONGEST_KEY] if is_plain else shown(key)}"

    def value(self, key: str) -> object:
        """The value as it is; None if it is missing."""
        self._known[key] = None
        return self.given.get(key)

    def required(self, key: str, allowed: str) -> bool:
        """Whether a value is there; if not, that is noted."""
        if self.value(key) is not None:
            return True
        if self.is_mapping:
            self.refuse(key, allowed)
        return False

    def whole_number(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number from `least` to `most`."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.refuse(key, f"a whole number from {least} to {most}")
        return default

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        self.refuse(key, f"a number from {least:g} to {most:g}")
        return default

    def truth(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(key, "true or false")
        return default

    def text(self, key: str, default: str = "", allowed: str = "") -> str:
        """A short text."""
        value = self.value(key)
        if value is None:
            return default
        if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
            return value
        self.refuse(key, allowed or f"a text of at most {_LONGEST_TEXT} characters")
        return default

    def checked(self, key: str, read: Callable[[str], _Value], allowed: str) -> _Value | None:
        """A text as `read` returns it, which raises ValueError, KeyError or OSError; None if it is missing or wrong."""
        value = self.value(key)
        if value is None:
            return None
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT:
            with contextlib.suppress(ValueError, KeyError, OSError):
                return read(value)
        self.refuse(key, allowed)
        return None

    def zone(self, key: str, default: tzinfo) -> tzinfo:
        """A time zone by its name."""
        # An unknown time zone is a KeyError; its name is a path for the library.
        return self.checked(key, ZoneInfo, 'a time zone like "Europe/Berlin"') or default

    def days(self, key: str) -> frozenset[date]:
        """A list of days."""
        value = self.value(key)
        if value is None:
            return frozenset()
        if not isinstance(value, list | tuple):
            self.refuse(key, f"a list of days, each {DAY_ALLOWED}")
            return frozenset()
        found = set()
        for number, each in enumerate(value):
            try:
                found.add(date.fromisoformat(each))
            except (TypeError, ValueError):
                self.problems.append(Problem(f"{self.path_of(key)}[{number}]", shown_setting(each), DAY_ALLOWED))
        return frozenset(found)

    def numbers(self, key: str, least: float, most: float) -> tuple[float, ...]:
        """A number or a list of numbers, each from `least` to `most`; empty if it is missing or wrong."""
        value = self.value(key)
        if value is None:
            return ()
        given = value if isinstance(value, list | tuple) else [value]
        found = tuple(
            float(each)
            for each in given
            if isinstance(each, int | float) and not isinstance(each, bool) and least <= each <= most
        )
        if given and len(found) == len(given):
            return found
        self.refuse(key, f"a number from {least:g} to {most:g}, or a list of them")
        return ()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of short texts."""
        value = self.value(key)
        if value is None:
            return ()
        if isinstance(value, list | tuple) and all(map(_is_short, value)):
            return tuple(value)
        self.refuse(key, f"a list of texts of at most {_LONGEST_TEXT} characters")
        return ()

    def text_map(self, key: str) -> Mapping[str, str]:
        """A mapping of short texts."""
        value = self.value(key)
        if value is None:
            return {}
        if isinstance(value, Mapping) and all(_is_short(each) for pair in value.items() for each in pair):
            return dict(value)
        self.refuse(key, f"a mapping of texts of at most {_LONGEST_TEXT} characters")
        return {}

    def refuse_other_keys(self) -> None:
        """Note each key that was not read."""
        for key in self.given:
            if key not in self._known:
                self.refuse(key, f"the keys {', '.join(self._known)}", shown_setting(key))


def readers_of_list(
    value: object, path: str, most: int, allowed: str, problems: list[Problem]
) -> tuple[SettingsReader, ...]:
    """A reader of each mapping of a list.

    Parameters
    ----------
    most
        The most mappings.
    allowed
        What each may be, as the rest of a sentence.
    problems
        Gets what is wrong.
    """
    if not isinstance(value, list | tuple) or len(value) > most:
        found = f"{len(value)} entries" if isinstance(value, list | tuple) else shown_setting(value)
        problems.append(Problem(path, found, f"a list of at most {most} entries, each {allowed}"))
        return ()
    return tuple(SettingsReader(each, f"{path}[{number}]", allowed, problems) for number, each in enumerate(value))


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT


def refuse_settings(problems: list[Problem]) -> None:
    """Raise, if anything is wrong.

    Raises
    ------
    SettingsError
        With every problem.
    """
    if problems:
        raise SettingsError(problems)


def shown_setting(value: object) -> str:
    """A value for messages; a value with an address is not shown, as an address may hold a secret."""
    text = shown(value)
    return "a value with an address" if "//" in text else text
