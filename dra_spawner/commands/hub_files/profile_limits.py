"""Limits of the number and size of profiles and choices that a command reads, as work grows with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner.commands.cluster_files.input_errors import InputError
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.profiles.choices import profiles_of

MAX_PROFILES: Final = 1_000
MAX_OPTIONS: Final = 50
"""Maximum of one profile."""
MAX_CHOICES: Final = 5_000
"""Maximum of all profiles together."""
MAX_VALUES: Final = 200_000
"""Maximum of values in all choices together, each counted with its profile's values."""
MAX_RENDERED_VALUES: Final = 50_000
"""The same maximum where all choices are printed, which takes more time for each value."""


def check_size(found: ProfilesFound, max_values: int = MAX_VALUES) -> None:
    """Refuse profiles that are too many or too large, as checking them would take minutes.

    Raises
    ------
    InputError
        With the path and the limit.
    """
    profile_list = found.profile_list
    if not isinstance(profile_list, list | tuple | Mapping):
        return
    if len(profile_list) > MAX_PROFILES:
        _refuse(found, found.list_path, len(profile_list), "profiles", MAX_PROFILES)
    choices = values = 0
    own = _count_values(found.settings, max_values)
    for path, profile in profiles_of(profile_list, found.list_path):
        if not isinstance(profile, Mapping):
            continue
        options = profile.get("profile_options")
        options = options if isinstance(options, Mapping) else {}
        if len(options) > MAX_OPTIONS:
            _refuse(found, f"{path}.profile_options", len(options), "options", MAX_OPTIONS)
        offered = 1 + sum(map(len, _choices(options)))
        choices += offered
        # A choice's override counts where it is picked, and where it is the default beside other options.
        defaults = [next(iter(each.values()), None) for each in _choices(options)]
        values += offered * (own + _count_values([profile.get("kubespawner_override"), defaults], max_values))
        if choices > MAX_CHOICES:
            _refuse(found, path, choices, "choices up to here", MAX_CHOICES)
        if values > max_values:
            _refuse(found, path, values, "values in all choices up to here", max_values)


def _choices(options: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for option in options.values():
        choices = option.get("choices") if isinstance(option, Mapping) else None
        if isinstance(choices, Mapping):
            yield choices


def _count_values(value: object, most: int) -> int:
    """Number of values in a value, itself included; counting ends above the limit."""
    count, pending = 0, [value]
    while pending and count <= most:
        item = pending.pop()
        count += 1
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
    return count


def _refuse(found: ProfilesFound, path: str, count: int, what: str, most: int) -> None:
    raise InputError(found.source, 0, path, f"has {count:,} {what}; the maximum is {most:,}")
