"""Overrides of profiles and choices, and how KubeSpawner merges them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["MergeConflict", "merge_overrides", "override_of"]


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
