"""Limits of placeholders as configured, validated early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_spawner.dra.cel import CelCompileError, compile_selector
from dra_spawner.dra.claim_sizes import SIZE_ALLOWED, is_size
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.controller.settings import PlaceholderSettingsError
from dra_spawner.placeholders.planner.limits import Limit
from dra_spawner.placeholders.planner.policy import MOST_PLACEHOLDERS
from dra_spawner.profiles.problems import Problem, shown

__all__ = ["read_groups", "read_limits"]

_KEYS: Final = ("name", "placeholders", "devices", "capacity", "device_class", "selector", "profile", "group")
_BOUNDS: Final = ("placeholders", "devices", "capacity")
_MOST_LIMITS: Final = 100
_LONGEST_NAME: Final = 253
_EXAMPLE: Final = '{"name": "a100", "device_class": "gpu.nvidia.com", "devices": 8}'


def read_groups(value: object, path: str = "profile_groups") -> dict[str, tuple[str, ...]]:
    """The groups of profiles, as configured: ``{"teaching": ["gpu-slice", "gpu-share"]}``.

    Raises
    ------
    PlaceholderSettingsError
        With path, found and allowed values of every problem.
    """
    if not isinstance(value, Mapping):
        raise PlaceholderSettingsError(
            [Problem(path, shown(value), "a mapping of names of groups to lists of profiles")]
        )
    problems: list[Problem] = []
    found: dict[str, tuple[str, ...]] = {}
    for name, profiles in value.items():
        if not _is_name(name):
            problems.append(Problem(path, shown(name), "names of groups, like teaching"))
        elif not isinstance(profiles, list | tuple) or not profiles or not all(map(_is_name, profiles)):
            problems.append(Problem(f"{path}.{name}", shown(profiles), 'a list of profiles like ["gpu-slice"]'))
        else:
            found[str(name)] = tuple(profiles)
    if problems:
        raise PlaceholderSettingsError(problems)
    return found


def read_limits(value: object, groups: Mapping[str, tuple[str, ...]], path: str = "limits") -> tuple[Limit, ...]:
    """The limits, as configured: a list of mappings, each with a name and at least one bound.

    Parameters
    ----------
    groups
        Profiles by name of the group.

    Raises
    ------
    PlaceholderSettingsError
        With path, found and allowed values of every problem.
    """
    if not isinstance(value, list | tuple) or len(value) > _MOST_LIMITS:
        raise PlaceholderSettingsError(
            [Problem(path, shown(value), f"a list of at most {_MOST_LIMITS} mappings like {_EXAMPLE}")]
        )
    problems: list[Problem] = []
    found: list[Limit] = []
    for number, each in enumerate(value):
        where = f"{path}[{number}]"
        if not isinstance(each, Mapping):
            problems.append(Problem(where, shown(each), f"a mapping like {_EXAMPLE}"))
            continue
        limit = _Reader(each, where, problems).limit(groups)
        if limit.name in {other.name for other in found}:
            problems.append(Problem(f"{where}.name", shown(limit.name), "a name that no other limit has"))
        found.append(limit)
    if problems:
        raise PlaceholderSettingsError(problems)
    return tuple(found)


class _Reader:
    """Reads one limit, and notes what is wrong."""

    def __init__(self, value: Mapping[object, object], path: str, problems: list[Problem]) -> None:
        self._value = value
        self._path = path
        self._problems = problems

    def limit(self, groups: Mapping[str, tuple[str, ...]]) -> Limit:
        for key in self._value:
            if key not in _KEYS:
                self._note(str(key)[:40], shown(key), f"the keys {', '.join(_KEYS)}")
        if "name" not in self._value:
            self._note("name", "", "a name for people, like a100")
        if not any(key in self._value for key in _BOUNDS):
            self._note("", "", f"at least one of {', '.join(_BOUNDS)}")
        limit = Limit(
            name=self._name("name"),
            placeholders=self._number("placeholders"),
            devices=self._number("devices"),
            capacity=self._capacity(),
            device_class=self._name("device_class"),
            selector=self._selector(),
            profiles=self._profiles(groups),
        )
        for key in ("device_class", "selector"):
            if key in self._value and "devices" not in self._value and "capacity" not in self._value:
                self._note(key, shown(self._value[key]), "only beside devices or capacity")
        return limit

    def _note(self, key: str, found: str, allowed: str) -> None:
        self._problems.append(Problem(f"{self._path}.{key}" if key else self._path, found, allowed))

    def _name(self, key: str) -> str:
        value = self._value.get(key)
        if value is None and key not in self._value:
            return ""
        if _is_name(value):
            return str(value)
        self._note(key, shown(value), f"text of 1 to {_LONGEST_NAME} printable characters")
        return ""

    def _number(self, key: str) -> int | None:
        value = self._value.get(key)
        if key not in self._value:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_PLACEHOLDERS:
            return value
        self._note(key, shown(value), f"a whole number from 0 to {MOST_PLACEHOLDERS}")
        return None

    def _capacity(self) -> dict[str, Quantity]:
        value = self._value.get("capacity", {})
        if not isinstance(value, Mapping) or ("capacity" in self._value and not value):
            self._note("capacity", shown(value), 'a mapping of capacities to amounts like {"memory": "80Gi"}')
            return {}
        found = {}
        for name, amount in value.items():
            if not _is_name(name):
                self._note("capacity", shown(name), "names of capacities, as drivers publish them")
            elif isinstance(amount, str | int) and is_size(amount):
                found[str(name)] = Quantity.parse(amount)
            else:
                self._note(f"capacity.{name}", shown(amount), SIZE_ALLOWED)
        return found

    def _selector(self) -> str:
        value = self._value.get("selector", "")
        if not isinstance(value, str) or ("selector" in self._value and not value.strip()):
            self._note("selector", shown(value), "a CEL expression, as in a DeviceClass")
            return ""
        if value:
            try:
                compile_selector(value)
            except CelCompileError as error:
                self._note("selector", shown(value), f"a CEL expression, as in a DeviceClass ({shown(str(error))})")
        return value

    def _profiles(self, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        profile, group = self._name("profile"), self._name("group")
        if profile and group:
            self._note("group", shown(group), "either profile or group")
        if group and group not in groups:
            known = ", ".join(sorted(groups)) or "none"
            self._note("group", shown(group), f"a group of profile_groups (there are: {known})")
        return (profile,) if profile else groups.get(group, ())


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable() and bool(value.strip())
