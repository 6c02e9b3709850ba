"""Defaults of the zero-to-jupyterhub chart that code in its values reads, and where it has the spawner's traits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dra_spawner import names

__all__ = ["CHART_DEFAULTS", "CHART_TRAITS", "EMPTY_TRAITS"]


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
