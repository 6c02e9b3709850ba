"""The shapes of all choices, as the hub publishes them, and what the administrator wants kept of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_spawner.headroom.policy import Headroom, Policy
from dra_spawner.headroom.shapes import Shape

__all__ = ["CONFIG_MAP", "PublishedShapes", "policy_with", "published_config_map", "read_config_map"]

#: Name of the ConfigMap.
CONFIG_MAP: Final = "dra-spawner-shapes"
_KEY: Final = "shapes.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class PublishedShapes:
    """What a hub published.

    Attributes
    ----------
    shapes
        By name of the choice: the profile's slug, or ``slug/option=choice``.
    skipped
        Choices without a shape, and why.
    problem
        Why none of it can be read; empty if it can.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def published_config_map(published: PublishedShapes, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap with the shapes of all choices."""
    content = {
        "format": _FORMAT,
        "shapes": {name: _shape_json(shape) for name, shape in published.shapes.items()},
        "skipped": dict(published.skipped),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": dict(labels)},
        "data": {_KEY: json.dumps(content, sort_keys=True, indent=1)},
    }


def read_config_map(obj: Mapping[str, Any] | None) -> PublishedShapes:
    """What a hub published; nothing, with the reason, if it makes no sense."""
    if obj is None:
        return PublishedShapes(problem=f"the hub has not published its profiles yet (ConfigMap {CONFIG_MAP})")
    try:
        content = json.loads(obj["data"][_KEY])
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']} is not known")
        shapes = {str(name): _shape(value) for name, value in content["shapes"].items()}
        return PublishedShapes(shapes, {str(name): str(why) for name, why in content["skipped"].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return PublishedShapes(problem=f"ConfigMap {CONFIG_MAP} makes no sense: {type(error).__name__}: {error}")


def policy_with(
    policy: Policy, published: PublishedShapes, headroom: Mapping[str, Headroom]
) -> tuple[Policy, list[str]]:
    """A policy for what is published, and what in the wanted head-room names nothing.

    Choices with one shape share their placeholders: what is wanted of each adds up.
    """
    shapes: dict[str, Shape] = {}
    for shape in published.shapes.values():
        known = shapes.get(shape.id)
        shapes[shape.id] = replace(shape, images=shape.images | known.images) if known is not None else shape
    wanted: dict[str, Headroom] = {}
    problems = []
    for name, each in headroom.items():
        named = published.shapes.get(name)
        if named is None:
            problems.append(_unknown(name, published))
            continue
        before = wanted.get(named.id)
        wanted[named.id] = _added((before, each)) if before is not None else each
    return replace(policy, shapes=shapes, headroom=wanted), problems


def _added(each: Iterable[Headroom]) -> Headroom:
    parts = list(each)
    floors = [part.floor for part in parts]
    floor = sum(value for value in floors if value is not None) if any(v is not None for v in floors) else None
    return Headroom(sum(part.min for part in parts), sum(part.max for part in parts), floor)


def _unknown(name: str, published: PublishedShapes) -> str:
    if name in published.skipped:
        return f"headroom of {name}: this choice is left out: {published.skipped[name]}"
    names = ", ".join(sorted(published.shapes)) or "none"
    return f"headroom of {name}: there is no such choice; there are: {names}"


def _shape_json(shape: Shape) -> dict[str, Any]:
    return {
        "id": shape.id,
        "claims": dict(shape.claims),
        "containers": list(shape.containers),
        "node_fields": dict(shape.node_fields),
        "images": sorted(shape.images),
    }


def _shape(value: Mapping[str, Any]) -> Shape:
    return Shape(
        str(value["id"]),
        dict(value["claims"]),
        tuple(value["containers"]),
        dict(value["node_fields"]),
        frozenset(map(str, value["images"])),
    )
