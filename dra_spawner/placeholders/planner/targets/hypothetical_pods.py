"""Hypothetical pods for questions to the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from dra_spawner.dra.model.claims import DeviceClass, ResourceClaim
from dra_spawner.dra.preferences import Preferences, with_preferences
from dra_spawner.placeholders.planner.targets.node_conditions import refusing_drained_nodes, requiring_readiness
from dra_spawner.placeholders.planner.targets.placeholder_objects import (
    PlaceholderSettings,
    placeholder_claims,
    placeholder_pod,
)
from dra_spawner.placeholders.planner.targets.shapes import Shape, canonical
from dra_spawner.simulator.model.claims import ClaimTemplate, TrackedClaim
from dra_spawner.simulator.model.extended_resources import classes_by_resource, extended_resource_claim
from dra_spawner.simulator.model.pods import Pod

_NAME = "simulated-placeholder"


def kind_of(shape: Shape) -> str:
    """Key of the node constraints of a shape; most shapes of a hub share one."""
    return canonical(shape.node_fields)


def pods_by_kind(shapes: Iterable[Shape]) -> dict[str, Pod]:
    """A pod without claims by kind, to find the nodes that its constraints allow."""
    return {kind: bare_pod(kind) for kind in map(kind_of, shapes)}


def simulated_placeholder(
    shape: Shape,
    namespace: str,
    name: str = _NAME,
    preferences: Mapping[str, Preferences] = MappingProxyType({}),
) -> tuple[Pod, tuple[TrackedClaim, ...]]:
    """A placeholder and its claims, for a snapshot."""
    settings = PlaceholderSettings(namespace=namespace)
    claims = tuple(
        replace(TrackedClaim.from_json(_with_uid(manifest)), is_protected=False)
        for manifest in placeholder_claims(shape, name, settings, preferences)
    )
    return Pod.from_json(_with_uid(placeholder_pod(shape, name, settings))), claims


def simulated_user(
    shape: Shape,
    namespace: str,
    name: str = "simulated-user",
    preferences: Mapping[str, Preferences] = MappingProxyType({}),
) -> tuple[Pod, tuple[ClaimTemplate, ...]]:
    """A user's pod of a shape, which requires a node that is ready and not drained, and its claim templates."""
    templates = tuple(
        ClaimTemplate.from_json(
            {
                "metadata": {"name": f"{name}-{entry}", "namespace": namespace},
                "spec": {"spec": with_preferences(spec, preferences[entry]) if entry in preferences else spec},
            }
        )
        for entry, spec in shape.claims.items()
    )
    settings = PlaceholderSettings(namespace=namespace)
    manifest = placeholder_pod(shape, name, settings)
    spec = {
        **manifest["spec"],
        **shape.node_fields,
        "resourceClaims": [{"name": entry, "resourceClaimTemplateName": f"{name}-{entry}"} for entry in shape.claims],
    }
    spec["affinity"] = refusing_drained_nodes(requiring_readiness(shape.node_fields.get("affinity", {})))
    return Pod.from_json({"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec}), templates


def claim_of_extended_resources(pod: Pod, classes: Mapping[str, DeviceClass]) -> ResourceClaim:
    """The claim that kube-scheduler makes if devices provide the pod's extended resources; without requests if not."""
    by_resource = classes_by_resource(classes.values())
    return extended_resource_claim(pod, [name for name in pod.requests if name in by_resource], by_resource)


@lru_cache(maxsize=1000)
def bare_pod(kind: str) -> Pod:
    """A pod of a kind, with node constraints only."""
    spec = {**json.loads(kind), "containers": [{"name": "main", "image": "none", "resources": {}}]}
    return Pod.from_json({"metadata": {"name": _NAME, "namespace": "default"}, "spec": spec})


def _with_uid(manifest: Mapping[str, object]) -> dict[str, object]:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return {**manifest, "metadata": {**metadata, "uid": metadata["name"]}}
