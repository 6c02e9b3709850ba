"""Limits of placeholders as configured, validated early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dra_spawner.dra.cel import CelCompileError, compile_selector
from dra_spawner.dra.model.claim_sizes import SIZE_ALLOWED, is_size
from dra_spawner.dra.quantity import Quantity
from dra_spawner.placeholders.planner.targets.limits import Limit
from dra_spawner.placeholders.planner.targets.policy import MAX_PLACEHOLDERS
from dra_spawner.profiles.syntax.problems import Problem, shown
from dra_spawner.profiles.syntax.settings_reader import SettingsReader, readers_of_list, refuse_settings

_BOUNDS: Final = ("placeholders", "devices", "capacity")
_MAX_LIMITS: Final = 100
_LONGEST_NAME: Final = 253
_EXAMPLE: Final = '{"name": "a100", "device_class": "gpu.nvidia.com", "devices": 8}'


def read_groups(value: object, path: str = "profile_groups") -> dict[str, tuple[str, ...]]:
    """The groups of profiles, as configured: ``{"teaching": ["gpu-slice", "gpu-share"]}``.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    groups = SettingsReader(value, path, "a mapping of names of groups to lists of profiles")
    found: dict[str, tuple[str, ...]] = {}
    for name, profiles in groups.given.items():
        if not _is_name(name):
            groups.refuse_itself(shown(name), "names of groups, like teaching")
        elif not isinstance(profiles, list | tuple) or not profiles or not all(map(_is_name, profiles)):
            groups.refuse(name, 'a list of profiles like ["gpu-slice"]')
        else:
            found[str(name)] = tuple(profiles)
    refuse_settings(groups.problems)
    return found


def read_limits(value: object, groups: Mapping[str, tuple[str, ...]], path: str = "limits") -> tuple[Limit, ...]:
    """The limits, as configured: a list of mappings, each with a name and at least one bound.

    Parameters
    ----------
    groups
        Profiles by name of the group.

    Raises
    ------
    SettingsError
        With path, found and allowed values of every problem.
    """
    problems: list[Problem] = []
    found: list[Limit] = []
    for each in readers_of_list(value, path, _MAX_LIMITS, f"a mapping like {_EXAMPLE}", problems):
        if each.is_mapping:
            limit = _limit(each, groups)
            if limit.name in {other.name for other in found}:
                each.refuse("name", "a name that no other limit has")
            found.append(limit)
    refuse_settings(problems)
    return tuple(found)


def _limit(reader: SettingsReader, groups: Mapping[str, tuple[str, ...]]) -> Limit:
    reader.required("name", "a name for people, like a100")
    limit = Limit(
        name=_name(reader, "name"),
        placeholders=_number(reader, "placeholders"),
        devices=_number(reader, "devices"),
        capacity=_capacity(reader),
        device_class=_name(reader, "device_class"),
        selector=_selector(reader),
        profiles=_profiles(reader, groups),
        all_hubs=reader.truth("all_hubs", default=False),
    )
    if limit.all_hubs and limit.profiles:
        # Other hubs have other profiles, perhaps of the same name.
        reader.refuse("all_hubs", "only without profile and group")
    if not any(key in reader.given for key in _BOUNDS):
        reader.refuse_itself("", f"at least one of {', '.join(_BOUNDS)}")
    for key in ("device_class", "selector"):
        if key in reader.given and "devices" not in reader.given and "capacity" not in reader.given:
            reader.refuse(key, "only beside devices or capacity")
    reader.refuse_other_keys()
    return limit


def _name(reader: SettingsReader, key: str) -> str:
    value = reader.value(key)
    if value is None or _is_name(value):
        return str(value or "")
    reader.refuse(key, f"text of 1 to {_LONGEST_NAME} printable characters")
    return ""


def _number(reader: SettingsReader, key: str) -> int | None:
    return reader.whole_number(key, 0, 0, MAX_PLACEHOLDERS) if reader.value(key) is not None else None


def _capacity(reader: SettingsReader) -> dict[str, Quantity]:
    value = reader.value("capacity")
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not value:
        reader.refuse("capacity", 'a mapping of capacities to amounts like {"memory": "80Gi"}')
        return {}
    inner = reader.inner("capacity", value, "")
    found = {}
    for name, amount in value.items():
        if not _is_name(name):
            inner.refuse_itself(shown(name), "names of capacities, as drivers publish them")
        elif isinstance(amount, str | int) and is_size(amount):
            found[str(name)] = Quantity.parse(amount)
        else:
            inner.refuse(name, SIZE_ALLOWED, shown(amount))
    return found


def _selector(reader: SettingsReader) -> str:
    value = reader.value("selector")
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        reader.refuse("selector", "a CEL expression, as in a DeviceClass")
        return ""
    try:
        compile_selector(value)
    except CelCompileError as error:
        reader.refuse("selector", f"a CEL expression, as in a DeviceClass ({shown(str(error))})")
    return value


def _profiles(reader: SettingsReader, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    profile, group = _name(reader, "profile"), _name(reader, "group")
    if profile and group:
        reader.refuse("group", "either profile or group")
    if group and group not in groups:
        known = ", ".join(sorted(groups)) or "none"
        reader.refuse("group", f"a group of profile_groups (there are: {known})")
    return (profile,) if profile else groups.get(group, ())


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable() and bool(value.strip())
