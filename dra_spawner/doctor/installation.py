"""What objects of an installation say about it: the settings of the service, and addresses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.doctor.facts import ServiceSettings
from dra_spawner.doctor.objects import environment_of, is_ours, labels_of
from dra_spawner.placeholders.planner.targets.published_shapes import RefusedChoice, read_config_map

HUB_API: Final = "hub/api"
_PORT: Final = 8181


def addresses_of(pods: Iterable[JsonObject]) -> tuple[str, str]:
    """Base URL of the hub, and the service's address with its prefix, as the chart gives them to the service's pods.

    Both are empty without such a pod. A service that a hub starts has none.
    """
    for pod in pods:
        environment = environment_of(pod)
        hub_api = environment.get("JUPYTERHUB_API_URL", "").rstrip("/")
        if is_ours(pod) and hub_api.endswith(HUB_API):
            prefix = environment.get("JUPYTERHUB_SERVICE_PREFIX", "/")
            return hub_api.removesuffix(HUB_API), f"http://{_service_name(pod)}:{_PORT}{prefix}"
    return "", ""


def _service_name(pod: JsonObject) -> str:
    """The chart gives its Service the name of the Deployment, which its ReplicaSets begin with."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or [{}]
    template = labels_of(pod).get("pod-template-hash", "")
    return str(owners[0].get("name") or "").removesuffix(f"-{template}") or str((pod.get("status") or {}).get("podIP"))


def json_object(content: bytes) -> JsonObject:
    """The JSON object in the bytes; empty if there is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def settings_of(text: str) -> ServiceSettings | None:
    """The settings in the chart's ConfigMap; None if it has none."""
    found = json_object(text.encode()) if text else {}
    if not found:
        return None
    default, gates = ServiceSettings(), found.get("kubernetes_feature_gates")
    gates = gates if isinstance(gates, dict) else {}
    return ServiceSettings(
        # The chart has this key only with `placeholders.enabled`.
        has_placeholders="placeholders" in found,
        user_namespaces=found.get("user_namespaces") is True,
        lease_name=str(found.get("lease_name") or default.lease_name),
        shapes_config_map=str(found.get("shapes_config_map") or default.shapes_config_map),
        settings_config_map=str(found.get("settings_config_map") or default.settings_config_map),
        priority_class=str(found.get("placeholder_priority_class") or ""),
        has_tickets=found.get("tickets") is True,
        tickets_namespace=str(found.get("tickets_namespace") or ""),
        feature_gates={name: each for name, each in gates.items() if isinstance(each, bool)},
        packs_devices=found.get("pack_devices") is True,
        stops_idle_servers=isinstance(idle := found.get("idle_servers"), dict) and bool(idle.get("policies")),
    )


def refused_in(config_maps: Iterable[JsonObject]) -> dict[str, RefusedChoice]:
    """Choices that cannot work, by what hubs have published."""
    return {choice: refused for each in config_maps for choice, refused in read_config_map(each).refused.items()}
