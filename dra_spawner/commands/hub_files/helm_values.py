"""The spawner's traits from values of the zero-to-jupyterhub chart, as the chart's hub sets them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from dra_spawner import names
from dra_spawner.commands.hub_files.hub_code import (
    CodeOutcome,
    CodeProblem,
    HubCode,
    SpawnerClass,
    run_hub_code,
    settings_without_code,
)
from dra_spawner.commands.hub_files.profiles_found import ChartValues, ProfilesFound
from dra_spawner.commands.hub_files.values_tree import LIST_NAMES, at, merged_as_helm, without_nulls
from dra_spawner.profiles.choices import TRAIT
from dra_spawner.profiles.findings import Finding, Level
from dra_spawner.profiles.lint import hub_rules
from dra_spawner.profiles.user_form.policy_choices import FROM_POLICY

_SETTINGS_DIRECTORY: Final = "/usr/local/etc/jupyterhub/jupyterhub_config.d/"
#: Files that the hub's container has, and code may read.
_NAMESPACE_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_VALUES_FILE: Final = "/usr/local/etc/jupyterhub/secret/values.yaml"
_NOT_RUN: Final = "is not run, as --without-code says"


def profiles_of_values(prefix: str, given: Mapping[str, Any], source: str, *, runs_code: bool = True) -> ProfilesFound:
    """The profiles of a hub with these values; its code is run, as the hub does.

    Parameters
    ----------
    prefix
        Path of the values in their files, empty or with a dot at its end.
    runs_code
        Whether code of the values is run. If not, each piece is a finding.
    """
    # The words of the chart; what a team has written stands over them.
    values = without_nulls(merged_as_helm(CHART_DEFAULTS, given))
    sections, paths = _sections(without_nulls(given), values, prefix)
    pieces = list(_pieces(values))
    before = settings_without_code(sections)
    code = HubCode(
        settings=_for_code(sections),
        pieces=pieces,
        files=dict(_files(values)) | _files_of_container(values, pieces),
        environment=_environment(values),
        values=values,
        names_prefix=f"{name}-" if (name := at(values, "fullnameOverride")) and isinstance(name, str) else "",
    )
    outcome = before
    if runs_code and (pieces or before.spawner.is_ours is None):
        outcome = run_hub_code(code)
    elif pieces:
        outcome = CodeOutcome(
            before.settings, before.spawner, tuple(CodeProblem(name, 0, _NOT_RUN) for name, _ in pieces)
        )
    settings = dict(outcome.settings)
    listed, static = settings.pop("profile_list", None), before.settings.get("profile_list")
    is_function = callable(listed)
    if is_function and isinstance(static, list | Mapping) and static:
        listed = static  # what the function most often filters
    where = [path for path, value in paths["profile_list"] if value == listed]
    findings = [*_code_findings(outcome, prefix), *_value_findings(values, prefix)]
    if where:
        findings += _overridden(paths["profile_list"], where[-1], listed)
    list_path = where[-1] if where else f"{prefix}hub.extraConfig: profile_list" if prefix else "profile_list"
    is_set = outcome.spawner.set_by or "spawner_class" in sections.get("JupyterHub", {})
    return ProfilesFound(
        source,
        listed,
        settings,
        list_path=list_path,
        settings_path=next((path for path, _ in reversed(paths[TRAIT])), "")
        .removesuffix(f".{TRAIT}")
        .removesuffix(TRAIT),
        unread=tuple(_unrendered(values, prefix)),
        findings=tuple(findings),
        is_filtered=is_function,
        spawner=outcome.spawner if is_set else SpawnerClass(),
        chart=ChartValues(prefix, without_nulls(given), values),
    )


_Paths = dict[str, list[tuple[str, Any]]]


def _sections(
    given: Mapping[str, Any], values: Mapping[str, Any], prefix: str
) -> tuple[dict[str, dict[str, Any]], _Paths]:
    """Settings by section as the chart's configuration file sets them before any code, and the paths of two of them."""
    paths: _Paths = {"profile_list": [], TRAIT: []}
    own: dict[str, Any] = {}
    for trait, where in CHART_TRAITS.items():
        value = at(given, "singleuser", *where)
        if value is not None:
            own[trait] = value
            if trait in paths:
                paths[trait].append((f"{prefix}singleuser.{'.'.join(where)}", value))
    image, tag = at(given, "singleuser", "image", "name"), at(given, "singleuser", "image", "tag")
    if image:
        own["image"] = f"{image}:{tag}" if tag else image
    tolerations = (at(values, "scheduling", "userPods", "tolerations"), at(values, "singleuser", "extraTolerations"))
    own["tolerations"] = [each for some in tolerations if isinstance(some, list) for each in some]
    if at(values, "scheduling", "userScheduler", "enabled"):
        own["scheduler_name"] = "user-scheduler"
    sections: dict[str, dict[str, Any]] = {"KubeSpawner": own}
    configured = at(values, "hub", "config")
    for section, settings in configured.items() if isinstance(configured, Mapping) else ():
        if isinstance(settings, Mapping) and section[:1].isupper():
            sections.setdefault(section, {}).update(settings)
            for trait in paths.keys() & settings.keys():
                paths[trait].append((f"{prefix}hub.config.{section}.{trait}", settings[trait]))
    return sections, paths


def _for_code(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    complete = {section: dict(settings) for section, settings in sections.items()}
    complete["KubeSpawner"] = {**EMPTY_TRAITS, **complete["KubeSpawner"]}
    return complete


def _pieces(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Code that the hub runs, in its order: files of one directory, then ``hub.extraConfig`` sorted by key."""
    files = dict(_files(values))
    for path in sorted(files):
        if path.startswith(_SETTINGS_DIRECTORY) and path.endswith(".py"):
            yield f"hub.extraFiles: {path}", files[path]
    extra = at(values, "hub", "extraConfig")
    if isinstance(extra, str):
        yield "hub.extraConfig", extra
    for name in sorted(extra) if isinstance(extra, Mapping) else ():
        yield f"hub.extraConfig.{name}", str(extra[name])


def _files(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and text of each of the files in ``hub.extraFiles``."""
    files = at(values, "hub", "extraFiles")
    for entry in files.values() if isinstance(files, Mapping) else ():
        path = at(entry, "mountPath")
        if not isinstance(path, str):
            continue
        text, data, binary = (at(entry, name) for name in ("stringData", "data", "binaryData"))
        if isinstance(text, str):
            yield path, text
        elif data is not None:
            yield path, json.dumps(data) if path.endswith(".json") else str(yaml.safe_dump(data))
        elif isinstance(binary, str):
            try:
                yield path, base64.b64decode(binary).decode()
            except (binascii.Error, UnicodeDecodeError):
                continue  # no text


def _files_of_container(values: Mapping[str, Any], pieces: list[tuple[str, str]]) -> dict[str, str]:
    mentioned = {path for path in (_NAMESPACE_FILE, _VALUES_FILE) if any(path in code for _, code in pieces)}
    texts = {_NAMESPACE_FILE: "default", _VALUES_FILE: json.dumps(values) if _VALUES_FILE in mentioned else ""}
    return {path: texts[path] for path in mentioned}


def _environment(values: Mapping[str, Any]) -> dict[str, str]:
    """Variables of the hub's container, as far as their values are written down."""
    extra = at(values, "hub", "extraEnv")
    known = {"POD_NAMESPACE": "default", "HELM_RELEASE_NAME": "jupyterhub"}
    pairs: list[tuple[Any, Any]] = []
    if isinstance(extra, Mapping):
        pairs = [(key, at(value, "value") if isinstance(value, Mapping) else value) for key, value in extra.items()]
    elif isinstance(extra, list):
        pairs = [(at(each, "name"), at(each, "value")) for each in extra]
    for name, value in pairs:
        if isinstance(name, str) and name and "=" not in name and value is not None and "\0" not in f"{name}{value}":
            known[name] = str(value)
    return known


def _code_findings(outcome: CodeOutcome, prefix: str) -> Iterator[Finding]:
    for problem in outcome.problems:
        line = f"line {problem.line} " if problem.line else ""
        level = Level.ERROR if problem.is_certain else Level.WARNING
        effect = "the hub does not start with it" if problem.is_certain else "its settings are not checked"
        where = f"{prefix}{problem.piece or 'hub.extraConfig'}"
        yield hub_rules.UNREAD_CODE.finding(where, f"{line}{problem.sentence_end}; {effect}", level)


def _overridden(lists: list[tuple[str, Any]], used: str, listed: Any) -> Iterator[Finding]:
    for path, value in lists:
        if value and value != listed:
            message = f"is overridden by {used}: users never see these profiles"
            yield hub_rules.HUB_VALUES.finding(path, message, Level.WARNING)


def _value_findings(values: Mapping[str, Any], prefix: str) -> Iterator[Finding]:
    """Values that the chart refuses, or passes over."""
    for name in (LIST_NAMES[0], TRAIT):
        if at(values, "singleuser", name) is not None:
            allowed = "profileList" if name == LIST_NAMES[0] else f"{TRAIT} in hub.config.DRASpawner, or in a profile"
            message = f"is no value of zero-to-jupyterhub, which refuses it; allowed: {allowed}"
            yield hub_rules.HUB_VALUES.finding(f"{prefix}singleuser.{name}", message)
    listed = at(values, "singleuser", LIST_NAMES[1])
    if isinstance(listed, Mapping) and listed:
        message = (
            "is a mapping, which zero-to-jupyterhub refuses; allowed: a list, or hub.config.DRASpawner.profile_list"
        )
        yield hub_rules.HUB_VALUES.finding(f"{prefix}singleuser.{LIST_NAMES[1]}", message)
    configured = at(values, "hub", "config")
    for section, settings in configured.items() if isinstance(configured, Mapping) else ():
        path = f"{prefix}hub.config.{section}"
        if not section[:1].isupper():
            message = (
                "has no effect, and zero-to-jupyterhub 4.4 ends at it; allowed: the name of a class, such as DRASpawner"
            )
            yield hub_rules.HUB_VALUES.finding(path, message)
        elif isinstance(settings, Mapping) and LIST_NAMES[1] in settings and section.endswith("Spawner"):
            message = f"has no effect; allowed: {LIST_NAMES[0]}, the name in Python"
            yield hub_rules.HUB_VALUES.finding(f"{path}.{LIST_NAMES[1]}", message)
        elif isinstance(settings, Mapping) and settings.get("manage_roles") and section.endswith("Authenticator"):
            yield from _assigned_roles(at(values, "hub", "loadRoles"), f"{path}.manage_roles", prefix)


def _assigned_roles(roles: Any, managed_by: str, prefix: str) -> Iterator[Finding]:
    """Roles that JupyterHub refuses at its start, as the authenticator alone gives roles to people."""
    for name, role in roles.items() if isinstance(roles, Mapping) else ():
        for key in ("groups", "users"):
            if at(role, key):
                message = (
                    f"JupyterHub ends at its start: with {managed_by} a role names no {key}; remove the key, and let "
                    f"the authenticator give the role {name} to people"
                )
                yield hub_rules.HUB_VALUES.finding(f"{prefix}hub.loadRoles.{name}.{key}", message)


def _unrendered(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Choices that the spawner reads, but with which the templates of zero-to-jupyterhub fail: they list images."""
    profiles = at(values, "singleuser", "profileList")
    for number, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        options = at(profile, "profile_options")
        for name, option in options.items() if isinstance(options, Mapping) else ():
            if at(option, "choices") == FROM_POLICY:
                yield (
                    f"{prefix}singleuser.profileList[{number}].profile_options.{name}.choices: zero-to-jupyterhub does "
                    f"not render the word {FROM_POLICY} alone; write choices: {{{FROM_POLICY}: {{}}}}"
                )


def _dedicated(purpose: str) -> list[dict[str, str]]:
    keys = (names.DEDICATED, names.DEDICATED_UNDERSCORE)
    return [{"key": key, "operator": "Equal", "value": purpose, "effect": "NoSchedule"} for key in keys]


CHART_DEFAULTS: Final[Mapping[str, Any]] = {
    "custom": {},
    "fullnameOverride": "",
    "hub": {
        "baseUrl": "/",
        "config": {},
        "consecutiveFailureLimit": 5,
        "db": {"type": "sqlite-pvc"},
        "extraConfig": {},
        "extraEnv": {},
        "extraFiles": {},
        "loadRoles": {},
        "services": {},
    },
    "singleuser": {
        "cmd": "jupyterhub-singleuser",
        "extraContainers": [],
        "extraEnv": {},
        "extraPodConfig": {},
        "extraTolerations": [],
        "image": {"name": "quay.io/jupyterhub/k8s-singleuser-sample"},
        "initContainers": [],
        "memory": {"guarantee": "1G"},
        "nodeSelector": {},
        "profileList": [],
        "startTimeout": 300,
        "storage": {"type": "dynamic", "capacity": "10Gi", "homeMountPath": "/home/jovyan"},
    },
    "scheduling": {
        "podPriority": {"enabled": False},
        "userPlaceholder": {"enabled": True, "replicas": 0},
        "userPods": {"tolerations": _dedicated("user")},
        "userScheduler": {"enabled": True},
    },
    "prePuller": {"continuous": {"enabled": True}, "hook": {"enabled": True}, "extraTolerations": []},
    "cull": {"enabled": True, "every": 600, "timeout": 3600, "users": False},
    "debug": {"enabled": False},
}
"""What the chart's values have where nothing else is said."""

CHART_TRAITS: Final[Mapping[str, tuple[str, ...]]] = {
    "profile_list": ("profileList",),
    "node_selector": ("nodeSelector",),
    "node_affinity_required": ("extraNodeAffinity", "required"),
    "node_affinity_preferred": ("extraNodeAffinity", "preferred"),
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
    "service_account": ("serviceAccountName",),
    "image_pull_policy": ("image", "pullPolicy"),
}
"""Trait of the spawner, and where the chart has it below ``singleuser``."""

EMPTY_TRAITS: Final[Mapping[str, Any]] = {
    "common_labels": {},
    "environment": {},
    "extra_annotations": {},
    "extra_containers": [],
    "extra_labels": {},
    "extra_pod_config": {},
    "extra_resource_guarantees": {},
    "extra_resource_limits": {},
    "init_containers": [],
    "node_affinity_preferred": [],
    "node_affinity_required": [],
    "node_selector": {},
    "profile_list": [],
    "volume_mounts": {},
    "volumes": {},
}
"""Traits that the chart sets to something empty, to which code adds."""
