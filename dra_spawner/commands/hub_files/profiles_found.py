"""Profiles that were found in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dra_spawner.commands.hub_files.hub_code import SpawnerClass
from dra_spawner.commands.hub_files.service_chart import ServiceValues
from dra_spawner.profiles.findings import Finding


@dataclass(frozen=True, slots=True)
class ChartValues:
    """Values of the zero-to-jupyterhub chart for one hub.

    Attributes
    ----------
    prefix
        Path of the values in their files, empty or with a dot at its end.
    given
        Values as the files have them.
    values
        The same over the chart's defaults.
    """

    prefix: str
    given: Mapping[str, Any]
    values: Mapping[str, Any]


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
        A sentence for each part that only a hub or the chart can read.
    findings
        Findings about the configuration as a whole.
    is_filtered
        Whether a function gives the profiles; ``profile_list`` is the static list that it replaces, or the function.
    spawner
        The hub's spawner class; None if this is no configuration of a hub.
    chart
        Values of the hub's chart, if there are any.
    service
        Values of the service beside the hub, or alone; None if there are none.
    is_service_alone
        Whether the files have a service, and no profiles.
    """

    source: str
    profile_list: Any
    settings: Mapping[str, Any]
    list_path: str = "profile_list"
    settings_path: str = ""
    unread: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_filtered: bool = False
    spawner: SpawnerClass | None = None
    chart: ChartValues | None = None
    service: ServiceValues | None = None
    is_service_alone: bool = False
