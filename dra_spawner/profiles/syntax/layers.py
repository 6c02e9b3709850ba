"""Layers of settings: the spawner's own traits, a profile's override, its choices' overrides; and the merged values."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_spawner.profiles.syntax.problems import Problem, shown

#: The spawner's trait that holds claims.
TRAIT = "device_claims"

_PLAIN_KEY = re.compile(r"\.([^.\[ ]+)(?=[.\[ ]|$)")
_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings that were merged, and where they stand.

    Attributes
    ----------
    path
        Such as ``profile_list[1].kubespawner_override``; empty for the spawner's own traits.
    settings
        Values of traits by name.
    """

    path: str
    settings: Mapping[str, Any]

    def path_to(self, trait: str) -> str:
        """Path of a trait in this layer."""
        return f"{self.path}.{trait}" if self.path else trait


@dataclass(frozen=True, slots=True)
class Merged:
    """Layers, merged one over the other.

    Attributes
    ----------
    layers
        What was merged, the later over the earlier.
    settings
        Merged values; read only, as they may belong to a layer.
    problems
        Why some of it cannot be merged.
    """

    layers: tuple[Layer, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def under(self, *layers: Layer) -> Merged:
        """The same with further layers over it."""
        settings, problems = dict(self.settings), list(self.problems)
        for layer in layers:
            for name, value in layer.settings.items():
                problem = _apply(settings, name, value, layer)
                if problem is not None:
                    problems.append(problem)
        return Merged((*self.layers, *layers), settings, tuple(problems))


def _apply(settings: dict[str, Any], name: str, value: object, layer: Layer) -> Problem | None:
    """What KubeSpawner does with one override; functions are called at each spawn only."""
    if callable(value):
        return None
    before = settings.get(name)
    if name == TRAIT and not isinstance(value, Mapping):
        return Problem(layer.path_to(name), shown(value), "a mapping of a name to a claim")
    if not isinstance(value, Mapping) or not (isinstance(before, Mapping) or name == TRAIT):
        settings[name] = value
        return None
    try:
        settings[name] = merge_overrides(before or {}, value)
    except MergeConflict as conflict:
        if name != TRAIT:
            return None  # KubeSpawner's own to tell
        found = f"a mapping over {shown(conflict.found)}"
        return Problem(f"{layer.path_to(name)}{conflict.path}", found, "what merges with the profile's own value")
    return None


def origin(layers: Sequence[Layer], below: str) -> str:
    """Path of what stands ``below`` the claims.

    A single value is told in the last layer that says it; a mapping, which later layers only add to, and what is not
    there at all, in the first layer that says most of the way.
    """
    best, most = next((each for each in layers if each.settings.get(TRAIT)), layers[-1]), 0
    for layer in layers:
        known, value = _known(layer.settings.get(TRAIT), below)
        if known > most or (known == most == len(below) and not isinstance(value, Mapping)):
            best, most = layer, known
    return f"{best.path_to(TRAIT)}{below}"


def _known(value: object, path: str) -> tuple[int, object]:
    """How many characters of a path lead to a value inside a value, and that value."""
    position = 0
    while position < len(path):
        plain = _PLAIN_KEY.match(path, position)
        if plain is not None and isinstance(value, dict) and plain[1] in value:
            value, position = value[plain[1]], plain.end()
            continue
        rest = path[position:]
        index = _INDEX.match(rest)
        if isinstance(value, Mapping):
            # Keys may have dots of their own.
            keys = [key for key in value if isinstance(key, str) and _leads(rest, key)]
            if not keys:
                break
            key = max(keys, key=len)
            value, position = value[key], position + 1 + len(key)
        elif isinstance(value, list | tuple) and index and int(index[1]) < len(value):
            value, position = value[int(index[1])], position + index.end()
        else:
            break
    return position, value


def _leads(path: str, key: str) -> bool:
    return path.startswith(f".{key}") and path[len(key) + 1 : len(key) + 2] in ("", ".", "[", " ")


class MergeConflict(ValueError):
    """Raised where a mapping would be merged over a single value, at which KubeSpawner fails."""

    def __init__(self, path: str, found: object) -> None:
        super().__init__(path)
        self.path = path
        self.found = found


def merge_overrides(base: Mapping[str, Any], override: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Merge as KubeSpawner does: dicts recursively, ``None`` removes a key, everything else replaces.

    Raises
    ------
    MergeConflict
        Where KubeSpawner's merge fails.
    """
    merged = dict(base)
    for key, value in override.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.setdefault(key, {})
            if not value:
                continue
            if not isinstance(below, Mapping):
                raise MergeConflict(f"{path}.{key}", below)
            merged[key] = merge_overrides(below, value, f"{path}.{key}")
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def override_of(entry: object) -> Mapping[str, Any]:
    """``kubespawner_override`` of a profile or choice; empty if it is missing or no mapping."""
    override = entry.get("kubespawner_override") if isinstance(entry, Mapping) else None
    return override if isinstance(override, Mapping) else {}
