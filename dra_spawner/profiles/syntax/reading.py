"""Walking a value of the configuration once, noting every problem instead of stopping at the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from dra_spawner.profiles.syntax.keys import Keys
from dra_spawner.profiles.syntax.problems import Problem, ProfileError, allowed_text, on_one_line, shown
from dra_spawner.profiles.syntax.rules import NAME, ValueRule

_Value = TypeVar("_Value")

#: Deeper values are none that a driver understands; a YAML anchor can even contain itself.
_DEEPEST_JSON = 64


class ValueReader:
    """Notes problems with their paths; its values are valid only without problems.

    Attributes
    ----------
    problems
        What was wrong so far, in the order of reading.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def accepted(self, read: _Value) -> _Value:
        """What was read.

        Raises
        ------
        ProfileError
            With every problem, if there were any.
        """
        if self.problems:
            raise ProfileError(self.problems)
        return read

    def refuse(self, path: str, found: object, allowed: str) -> None:
        """Note a wrong value."""
        self.problems.append(Problem(on_one_line(path), shown(found), allowed_text(allowed)))

    def missing(self, path: str, allowed: str) -> None:
        """Note that a required value is missing."""
        self.problems.append(Problem(on_one_line(path), "", allowed_text(allowed)))

    def follows(self, rule: ValueRule, value: object, path: str) -> bool:
        """Whether a rule accepts a value; if not, that is noted."""
        if rule.accepts(value):
            return True
        self.refuse(path, value, rule.allowed)
        return False

    def text(self, rule: ValueRule, value: object, path: str) -> str:
        """Text that a rule accepts, else an empty one."""
        return value if self.follows(rule, value, path) and isinstance(value, str) else ""

    def mapping(self, value: object, path: str, allowed: str) -> Mapping[str, object] | None:
        """A mapping whose keys are text."""
        if not isinstance(value, Mapping):
            self.refuse(path, value, allowed)
            return None
        for key in value:
            if not isinstance(key, str):
                self.refuse(f"{path}.{key}", key, "a key that is text")
                return None
        return value

    def keyed(self, value: object, path: str, keys: Keys, what: str, example: str) -> Mapping[str, object] | None:
        """A mapping with known keys, including the required ones; ``null`` counts as missing."""
        entry = self.mapping(value, path, example)
        if entry is None:
            return None
        self.known_keys(entry, path, keys, what)
        for name, key in keys.items():
            if key.required and entry.get(name) is None:
                self.missing(f"{path}.{name}", key.meaning)
        return entry

    def known_keys(self, entry: Mapping[str, object], path: str, keys: Keys, what: str) -> None:
        """Refuse unknown keys."""
        for key in entry:
            if key not in keys:
                near = get_close_matches(key, keys, 1)
                begin = f"{near[0]}, or another of " if near else ""
                self.refuse(f"{path}.{key}", key, f"{begin}the {what}: {', '.join(keys)}")

    def named(
        self,
        value: object,
        path: str,
        what: str,
        most: int,
        parse: Callable[[str, object, str], _Value | None],
    ) -> tuple[_Value, ...]:
        """Parse a mapping of DNS label -> item."""
        entries = self.mapping(value, path, f"a mapping of a name to {what}")
        if entries is None:
            return ()
        if len(entries) > most:
            self.refuse(path, f"{len(entries)} entries", f"at most {most}")
        items = []
        for name, entry in entries.items():
            self.follows(NAME, name, f"{path}.{name}")
            item = parse(name, entry, f"{path}.{name}")
            if item is not None:
                items.append(item)
        return tuple(items)

    def listed(
        self, value: object, path: str, what: str, most: int, parse: Callable[[object, str], _Value | None]
    ) -> tuple[_Value, ...]:
        """Parse a list of items; ``null`` is an empty one."""
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.refuse(path, value, f"a list of {what}")
            return ()
        if len(value) > most:
            self.refuse(path, f"{len(value)} entries", f"at most {most}")
        items = (parse(entry, f"{path}[{index}]") for index, entry in enumerate(value))
        return tuple(item for item in items if item is not None)

    def references(self, value: object, path: str, known: tuple[str, ...], most: int) -> tuple[str, ...]:
        """Names of requests of a claim, each once; ``null`` means all, as no names do in the API."""

        def reference(name: object, where: str) -> str | None:
            if isinstance(name, str) and name in known:
                return name
            self.refuse(where, name, f"one of the claim's requests: {', '.join(known)}")
            return None

        names = self.listed(value, path, "requests", most, reference)
        if isinstance(value, list | tuple) and not value:
            self.missing(path, "at least one request; leave the key out for all")
        if len(set(names)) < len(names):
            self.refuse(path, list(names), "each request once")
        return names

    def json(self, value: object, path: str, depth: int = 0) -> object:
        """A copy of a JSON value; refuses values that JSON lacks."""
        if depth > _DEEPEST_JSON:
            self.refuse(path, "deeper nesting", f"JSON of at most {_DEEPEST_JSON} levels")
        elif isinstance(value, Mapping):
            return self._json_object(value, path, depth)
        elif isinstance(value, list | tuple):
            return [self.json(entry, f"{path}[{index}]", depth + 1) for index, entry in enumerate(value)]
        elif isinstance(value, str):
            self._json_text(value, path)
            return value
        elif value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        else:
            self.refuse(path, value, "text, a number, true, false, null, a list or a mapping (JSON)")
        return None

    def _json_object(self, value: Mapping[object, object], path: str, depth: int) -> dict[str, object]:
        copied: dict[str, object] = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                self.refuse(f"{path}.{key}", key, "a key that is text")
            elif self._json_text(key, f"{path} (a key)"):
                copied[key] = self.json(entry, f"{path}.{key}", depth + 1)
        return copied

    def _json_text(self, value: str, path: str) -> bool:
        if any("\ud800" <= character <= "\udfff" for character in value):
            self.refuse(path, value, "Unicode text")
            return False
        return True
