"""The spawner's traits from values of the zero-to-jupyterhub chart, as the chart's hub sets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from traitlets.config import Config

from dra_spawner import names
from dra_spawner.check.hub_config import error_in, spawner_settings
from dra_spawner.check.profiles_found import ProfilesFound
from dra_spawner.profiles.policy_choices import FROM_POLICY

__all__ = ["is_helm_values", "profiles_of_values"]

#: Trait -> where the chart has it below ``singleuser``.
_TRAITS: Final[Mapping[str, tuple[str, ...]]] = {
    "profile_list": ("profileList",),
    "node_selector": ("nodeSelector",),
    "environment": ("extraEnv",),
    "extra_annotations": ("extraAnnotations",),
    "extra_labels": ("extraLabels",),
    "extra_containers": ("extraContainers",),
    "init_containers": ("initContainers",),
    "extra_pod_config": ("extraPodConfig",),
    "extra_resource_limits": ("extraResource", "limits"),
    "extra_resource_guarantees": ("extraResource", "guarantees"),
    "allow_privilege_escalation": ("allowPrivilegeEscalation",),
    "uid": ("uid",),
    "fs_gid": ("fsGid",),
    "cpu_limit": ("cpu", "limit"),
    "cpu_guarantee": ("cpu", "guarantee"),
    "mem_limit": ("memory", "limit"),
    "mem_guarantee": ("memory", "guarantee"),
    "start_timeout": ("startTimeout",),
    "cmd": ("cmd",),
}
#: The chart's tolerations of all servers, before ``singleuser.extraTolerations``.
_TOLERATIONS: Final = tuple(
    {"key": key, "operator": "Equal", "value": "user", "effect": "NoSchedule"}
    for key in (names.DEDICATED, names.DEDICATED_UNDERSCORE)
)


def is_helm_values(value: Mapping[str, Any]) -> bool:
    """Whether a document looks like values of the chart, or of a chart that includes it as ``jupyterhub``."""
    value = _chart(value)[1]
    return any(isinstance(value.get(key), Mapping) for key in ("hub", "singleuser"))


def _chart(values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    below = values.get("jupyterhub")
    if isinstance(below, Mapping) and not ("hub" in values or "singleuser" in values):
        return "jupyterhub.", below
    return "", values


def profiles_of_values(values: Mapping[str, Any], source: str) -> ProfilesFound:
    """The profiles of a hub with these values; ``hub.extraConfig`` is run, as the hub does."""
    prefix, values = _chart(values)
    config, paths = Config(), {}
    for trait, where in _TRAITS.items():
        value = _at(values, ("singleuser", *where))
        if value is not None:
            config.KubeSpawner[trait] = value
            paths[trait] = f"{prefix}singleuser.{'.'.join(where)}"
    more = _at(values, ("singleuser", "extraTolerations"))
    user_pods = _at(values, ("scheduling", "userPods", "tolerations"))
    config.KubeSpawner.tolerations = [
        *_TOLERATIONS,
        *(user_pods if isinstance(user_pods, list) else ()),
        *(more if isinstance(more, list) else ()),
    ]
    sections = _at(values, ("hub", "config"))
    for section, settings in sections.items() if isinstance(sections, Mapping) else ():
        if isinstance(settings, Mapping):
            config[section].update(settings)
            paths.update({trait: f"{prefix}hub.config.{section}.{trait}" for trait in settings})
    before = spawner_settings(config)
    unread = _run_extra_config(values, config, source)
    settings = spawner_settings(config)
    profile_list = settings.pop("profile_list", None)
    is_as_written = profile_list is before.get("profile_list")
    return ProfilesFound(
        source,
        profile_list,
        settings,
        list_path=paths.get("profile_list", "profile_list") if is_as_written else "profile_list",
        settings_path=paths.get("device_claims", "").removesuffix(".device_claims"),
        unread=(*unread, *_unrendered(values, prefix)),
    )


def _unrendered(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Choices that the spawner reads, but with which the templates of zero-to-jupyterhub fail: they list images."""
    profiles = _at(values, ("singleuser", "profileList"))
    for number, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        options = _at(profile, ("profile_options",))
        for name, option in options.items() if isinstance(options, Mapping) else ():
            if _at(option, ("choices",)) == FROM_POLICY:
                yield (
                    f"{prefix}singleuser.profileList[{number}].profile_options.{name}.choices: zero-to-jupyterhub does "
                    f"not render the word {FROM_POLICY} alone; write choices: {{{FROM_POLICY}: {{}}}}"
                )


def _run_extra_config(values: Mapping[str, Any], config: Config, source: str) -> list[str]:
    """Run ``hub.extraConfig`` in the order of its keys; a failing part may need the hub's own image."""
    unread = []
    pieces = _at(values, ("hub", "extraConfig"))
    for name in sorted(pieces) if isinstance(pieces, Mapping) else ():
        where = f"hub.extraConfig.{name}"
        try:
            exec(compile(str(pieces[name]), where, "exec"), {"c": config, "get_config": lambda: config})  # noqa: S102 (the hub does)
        except (Exception, SystemExit) as error:
            unread.append(f"{error_in(source, where, error)} ({where}); its settings are not checked")
    return unread


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
