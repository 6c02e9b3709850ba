"""Profiles as they were found in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ProfilesFound"]


@dataclass(frozen=True, slots=True)
class ProfilesFound:
    """What a hub would offer.

    Attributes
    ----------
    source
        What to call the file or files.
    profile_list
        ``KubeSpawner.profile_list``, as it stands there.
    settings
        The spawner's other traits that are set.
    list_path, settings_path
        Where the two stand, for messages.
    unread
        What could not be read, or only by a hub, a sentence each.
    """

    source: str
    profile_list: Any
    settings: Mapping[str, Any]
    list_path: str = "profile_list"
    settings_path: str = ""
    unread: tuple[str, ...] = ()
