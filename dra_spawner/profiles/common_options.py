"""Options that all profiles have: one block in place of a copy in each profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_common_options(profile_list: Any, options: object) -> Any:
    """Return the profiles with common options after their own ones. Idempotent.

    Parameters
    ----------
    profile_list
        As KubeSpawner has it. A function is returned as it is, and so is what is no profile.
    options
        In the form of ``profile_options``. A profile's own option of the same name wins.
    """
    if not options or not isinstance(options, Mapping):
        return profile_list
    if isinstance(profile_list, Mapping):
        return {key: _with_options(profile, options) for key, profile in profile_list.items()}
    if isinstance(profile_list, list | tuple):
        return [_with_options(profile, options) for profile in profile_list]
    return profile_list


def _with_options(profile: Any, options: Mapping[str, Any]) -> Any:
    own = profile.get("profile_options") or {} if isinstance(profile, Mapping) else None
    if not isinstance(own, Mapping):
        return profile
    return {**profile, "profile_options": {**own, **options, **own}}
