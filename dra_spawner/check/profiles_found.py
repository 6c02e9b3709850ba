"""Profiles that were found in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ProfilesFound"]


@dataclass(frozen=True, slots=True)
class ProfilesFound:
    """Profiles and settings of a hub.

    Attributes
    ----------
    source
        Name of the file or files in messages.
    profile_list
        ``KubeSpawner.profile_list``, unchanged.
    settings
        Other configured traits of the spawner.
    list_path, settings_path
        Paths of ``profile_list`` and ``settings`` in messages.
    unread
        A sentence for each part that could not be read, or that only a hub can read.
    """

    source: str
    profile_list: Any
    settings: Mapping[str, Any]
    list_path: str = "profile_list"
    settings_path: str = ""
    unread: tuple[str, ...] = ()
