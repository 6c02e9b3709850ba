"""Settings of `DRASpawner` that the hub refuses, that contradict one another, or that have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dra_spawner.commands.checking.trait_values import trait_problems
from dra_spawner.commands.hub_files.profiles_found import ProfilesFound
from dra_spawner.commands.hub_files.values_tree import at
from dra_spawner.profiles.choices import Choice, ListedChoice, profiles_of
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.instead import INSTEAD, TAKE_INSTEAD, named_choices_problems
from dra_spawner.profiles.lint import hub_rules
from dra_spawner.profiles.server_limits import LIMITS, allowed_instead
from dra_spawner.profiles.syntax.layers import override_of
from dra_spawner.profiles.syntax.problems import Problem
from dra_spawner.profiles.syntax.settings_reader import shown_setting

#: Traits of `DRASpawner`, but those that the profile language reads.
JUDGED: Final = frozenset(
    (
        "devices_idle_timeout",
        "devices_lifetime",
        "devices_lifetime_notice",
        "drivers_prepare_for",
        "form_shows_amounts",
        "form_shows_enforcement",
        "ignored_profile_rules",
        INSTEAD,
        "intel_gas_cleanup_interval_seconds",
        "kubernetes_feature_gates",
        "leftovers_sweep_interval_seconds",
        "max_tickets_per_user",
        "nodes_may_be_added",
        "optional_devices_wait_seconds",
        "other_user_options",
        "placeholder_service",
        "placeholder_service_ca_file",
        "placement_wait_seconds",
        "retry_failed_pod_after_seconds",
        "shapes_config_map",
        TAKE_INSTEAD,
        "tickets",
        "tickets_namespace",
    )
)
#: Of JupyterHub's spawner, where nothing sets it.
_START_TIMEOUT: Final = 60
_NOTICE: Final = 900
_SECTIONS: Final = ("DRASpawner", "KubeSpawner")

_RULE: Final = hub_rules.HUB_SETTINGS


def hub_setting_findings(found: ProfilesFound, listed: Sequence[ListedChoice]) -> Iterator[Finding]:
    """Findings about settings of the spawner, in the configuration and in profiles."""
    refused = list(_refused(found))
    yield from (_RULE.finding(path, message) for path, message in refused)
    is_list = bool(found.profile_list) and not callable(found.profile_list)
    if is_list and isinstance(names := found.settings.get(INSTEAD), list | tuple):
        for problem in named_choices_problems(found.profile_list, names, path_of_setting(found, INSTEAD)):
            yield _RULE.finding(problem.path, problem.message)
    wrong = {path for path, _ in refused}
    for path, message in dict.fromkeys(_contradictions(found, listed)):
        if path not in wrong:
            yield _RULE.finding(path, message, Level.WARNING)


def path_of_setting(found: ProfilesFound, name: str) -> str:
    """Where a setting of the spawner stands."""
    if found.chart is None:
        return f"c.DRASpawner.{name}" if found.spawner is not None else f"{found.settings_path}.{name}".lstrip(".")
    for section in _SECTIONS:
        if at(found.chart.given, "hub", "config", section, name) is not None:
            return f"{found.chart.prefix}hub.config.{section}.{name}"
    return f"{found.chart.prefix}hub.extraConfig: {name}"


def start_timeout(found: ProfilesFound) -> int:
    """Seconds for which a start may wait."""
    given = found.settings.get("start_timeout")
    if given is None and found.chart is not None:
        given = at(found.chart.values, "singleuser", "startTimeout")
    return given if isinstance(given, int) and not isinstance(given, bool) else _START_TIMEOUT


def _refused(found: ProfilesFound) -> Iterator[tuple[str, str]]:
    """Path and message of each value that its trait refuses."""
    values = [(name, value, path_of_setting(found, name)) for name, value in found.settings.items() if name in JUDGED]
    values += _values_of_profiles(found)
    if not values:
        return
    # Imported here, as it loads JupyterHub.
    from dra_spawner.spawner.settings import SpawnerSettings

    for name, value, path in values:
        if name in LIMITS and (allowed := allowed_instead(name, value)):
            problems = [Problem(path, shown_setting(value), allowed)]
        else:
            problems = trait_problems(SpawnerSettings, name, value, path)
        for problem in problems:
            yield problem.path, problem.message


def _values_of_profiles(found: ProfilesFound) -> list[tuple[str, Any, str]]:
    """Name, value and path of settings in profiles and choices, but those that are judged with the list."""
    values = []
    for path, entry in _overrides(found):
        for name in (JUDGED - LIMITS - {INSTEAD}) & {key for key in entry if isinstance(key, str)}:
            values.append((name, entry[name], f"{path}.kubespawner_override.{name}"))
    return values


def _overrides(found: ProfilesFound) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    if callable(found.profile_list) or not isinstance(found.profile_list, Mapping | list | tuple):
        return
    for path, profile in profiles_of(found.profile_list, found.list_path):
        if not isinstance(profile, Mapping):
            continue
        yield path, override_of(profile)
        options = profile.get("profile_options")
        for name, option in options.items() if isinstance(options, Mapping) else ():
            choices = at(option, "choices")
            for key, choice in choices.items() if isinstance(choices, Mapping) else ():
                if isinstance(choice, Mapping):
                    yield f"{path}.profile_options.{name}.choices.{key}", override_of(choice)


def _contradictions(found: ProfilesFound, listed: Sequence[ListedChoice]) -> Iterator[tuple[str, str]]:
    choices = [each.choice for each in listed if each.choice is not None]
    with_others = {each.profile for each in choices if each.settings.get(INSTEAD)}
    for choice in choices:
        lifetime = _seconds(choice, "devices_lifetime", 0)
        notice, idle = _seconds(choice, "devices_lifetime_notice", _NOTICE), _seconds(choice, "devices_idle_timeout", 0)
        if lifetime and notice >= lifetime:
            is_own = "devices_lifetime_notice" in choice.settings
            yield (
                _path(found, choice, "devices_lifetime_notice" if is_own else "devices_lifetime"),
                f"the notice of {notice} s is no shorter than the lifetime of {lifetime} s: servers are warned from "
                "their start on; allowed: a devices_lifetime_notice below devices_lifetime",
            )
        if lifetime and idle >= lifetime:
            yield (
                _path(found, choice, "devices_idle_timeout"),
                f"{idle} s without activity are never reached: each server ends after {lifetime} s "
                "(devices_lifetime); allowed: a shorter time",
            )
        if choice.settings.get(TAKE_INSTEAD) is True and choice.profile not in with_others:
            yield (
                _path(found, choice, TAKE_INSTEAD),
                f"has no effect, as no choice of this profile names others; allowed: with {INSTEAD}, such as "
                f'{INSTEAD}: ["gpu-slice"]',
            )


def _seconds(choice: Choice, name: str, default: int) -> int:
    value = choice.settings.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _path(found: ProfilesFound, choice: Choice, name: str) -> str:
    """Where a setting of a choice was set last."""
    if any(name in layer.settings for layer in choice.layers[1:]):
        return choice.path_of_setting(name)
    return path_of_setting(found, name) if name in found.settings else choice.path_of_setting(name)
