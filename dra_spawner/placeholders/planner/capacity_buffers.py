"""CapacityBuffers instead of placeholders, for shapes without devices.

A CapacityBuffer tells an autoscaler to have free capacity for a number of pods that do not exist. cluster-autoscaler
and Karpenter know no claims there, so shapes with devices always have placeholders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.placeholders.planner.placeholder_objects import PlaceholderSettings, placeholder_pod
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.shapes import Shape, canonical

__all__ = [
    "BufferAction",
    "DeleteBuffer",
    "SetBuffer",
    "SetTemplate",
    "buffer_manifest",
    "buffer_name",
    "decide_buffers",
    "template_manifest",
    "without_buffered",
]


@dataclass(frozen=True, slots=True)
class SetTemplate:
    """Create a PodTemplate, or write its pod anew."""

    manifest: JsonObject
    is_new: bool


@dataclass(frozen=True, slots=True)
class SetBuffer:
    """Create a CapacityBuffer, or write its number anew."""

    kind: ClassVar = "set-capacity-buffer"
    shape: str
    replicas: int
    is_new: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteBuffer:
    """Delete a CapacityBuffer and its PodTemplate."""

    kind: ClassVar = "delete-capacity-buffer"
    name: str
    reason: str


BufferAction: TypeAlias = SetTemplate | SetBuffer | DeleteBuffer


def decide_buffers(
    policy: Policy,
    settings: PlaceholderSettings,
    buffers: Iterable[JsonObject],
    templates: Iterable[JsonObject],
) -> tuple[BufferAction, ...]:
    """Actions towards one CapacityBuffer and one PodTemplate for each shape without devices that has a target.

    Parameters
    ----------
    policy
        With the targets. While it does not have all shapes, nothing is deleted.
    buffers, templates
        Those with this project's label in the placeholders' namespace, as in the API.
    """
    present = {_name(each): each for each in buffers}
    known = {_name(each): each for each in templates}
    wanted = {
        buffer_name(shape.id): (shape, policy.replicas[shape.id].min)
        for shape in policy.shapes.values()
        if not shape.wants_devices and shape.id in policy.replicas and policy.replicas[shape.id].min > 0
    }
    actions: list[BufferAction] = []
    for name, (shape, replicas) in wanted.items():
        # The template comes first: a buffer without one is an error to the autoscaler.
        manifest = template_manifest(shape, settings)
        if name not in known or _digest_of(known[name]) != _digest_of(manifest):
            actions.append(SetTemplate(manifest, is_new=name not in known))
        spec = present[name].get("spec") if name in present else None
        before = spec.get("replicas") if isinstance(spec, Mapping) else None
        if before != replicas or _template_of(spec) != name:
            reason = f"target {replicas}, before {before or 0}"
            actions.append(SetBuffer(shape.id, replicas, is_new=name not in present, reason=reason))
    if policy.is_complete:
        surplus = sorted(each for each in present.keys() | known.keys() if each not in wanted)
        actions += [DeleteBuffer(name, "no choice without devices has a target with its shape") for name in surplus]
    return tuple(actions)


def without_buffered(policy: Policy, shapes: Collection[str]) -> Policy:
    """The policy for pods: no targets for shapes that have a CapacityBuffer, only placeholders for pending servers."""
    if not shapes:
        return policy
    replicas = {
        shape: replace(each, min=0, floor=0) if shape in shapes else each for shape, each in policy.replicas.items()
    }
    return replace(policy, replicas=replicas)


def buffer_name(shape: str) -> str:
    """Name of the CapacityBuffer of a shape, and of its PodTemplate."""
    return f"{names.BUFFER_PREFIX}{shape}"


def template_manifest(shape: Shape, settings: PlaceholderSettings) -> JsonObject:
    """The PodTemplate of a shape; its pod is a placeholder's."""
    pod = placeholder_pod(shape, buffer_name(shape.id), settings)
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    metadata = _metadata(shape.id, settings)
    # The API server writes quantities in its own way and adds defaults, so the content is compared by its hash.
    metadata["annotations"] = {names.DIGEST: hashlib.sha256(canonical(template).encode()).hexdigest()}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def buffer_manifest(shape: str, replicas: int, settings: PlaceholderSettings, api_version: str) -> JsonObject:
    """The CapacityBuffer of a shape; its strategy is the cluster's default, and an administrator may change it."""
    return {
        "apiVersion": api_version,
        "kind": "CapacityBuffer",
        "metadata": _metadata(shape, settings),
        "spec": {"podTemplateRef": {"name": buffer_name(shape)}, "replicas": replicas},
    }


def _metadata(shape: str, settings: PlaceholderSettings) -> JsonObject:
    return {
        "name": buffer_name(shape),
        "namespace": settings.namespace,
        "labels": {names.MANAGED_BY: names.MANAGER, names.SHAPE: shape},
    }


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def _digest_of(template: Mapping[str, Any]) -> str:
    return str((template["metadata"].get("annotations") or {}).get(names.DIGEST, ""))


def _template_of(spec: object) -> object:
    """Name of the PodTemplate of a buffer."""
    reference = spec.get("podTemplateRef") if isinstance(spec, Mapping) else None
    return reference.get("name") if isinstance(reference, Mapping) else None
