"""A snapshot as plain values that compare equal exactly when two snapshots are in the same state."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, cast

from dra_spawner.dra.quantity import Quantity
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.table import Groups
from dra_spawner.simulator.snapshot import Snapshot

__all__ = ["Plain", "dump", "plain"]

Plain = str | int | bool | None | tuple["Plain", ...]
"""Nested tuples of simple values."""

_SIMPLE = frozenset((str, int, bool, type(None)))
"""Types of most values, which need no match."""


def dump(snapshot: Snapshot) -> dict[str, Plain]:
    """All objects of a snapshot, and its derived values, by part.

    The order of objects does not matter, except that of slices and of nodes, which can decide.
    """
    state = snapshot.state
    devices = state.devices
    slices, device_nodes = devices.in_order()
    indexes: dict[str, Groups[Any, Any]] = {
        "pods_of_node": state.pods_of_node,
        "nominated": state.nominated,
        "claims_made_for": state.generated_claims,
        "claims_reserved_for": state.claims_reserved_for,
        "anti_affinity_pods": state.anti_affinity_pods,
    }
    return {
        "nodes": plain({name: node.node for name, node in snapshot.nodes.items()}),
        "pods_there": plain({name: sorted(map(ObjectKey.of, node.pods)) for name, node in snapshot.nodes.items()}),
        "requested": plain({name: _nonzero(node.requested) for name, node in snapshot.nodes.items()}),
        "scored": plain({name: _nonzero(node.scoring_requested) for name, node in snapshot.nodes.items()}),
        "pods": plain(snapshot.pods),
        "claims": plain(snapshot.claims),
        "templates": plain(snapshot.templates),
        "slices": plain(slices),
        "slices_with_rules": plain([snapshot.slices[item.name] for item in slices]),
        "rules": plain(devices.taint_rules),
        "classes": plain(snapshot.classes),
        "broken": plain(snapshot.broken),
        "device_nodes": plain(device_nodes),
        "holders": plain(devices.holders),
    } | {name: plain({key: sorted(map(repr, groups[key])) for key in groups}) for name, groups in indexes.items()}


def plain(value: object) -> Plain:
    """A value as nested tuples: objects with their class and fields, mappings and sets sorted."""
    if type(value) in _SIMPLE:
        return cast("Plain", value)
    match value:
        case Quantity():
            return ("Quantity", value.nano, value.format.value)
        case Enum():
            return str(value.value)
        case str() | int() | None:
            return value
        case Mapping():
            return tuple(sorted(((plain(key), plain(item)) for key, item in value.items()), key=repr))
        case Set():
            return tuple(sorted(map(plain, value), key=repr))
        case tuple() | list():
            return tuple(map(plain, value))
    if is_dataclass(value):
        kind: Any = type(value)
        return (kind.__name__, *(plain(getattr(value, name)) for name in _field_names(kind)))
    raise TypeError(f"no plain form of {type(value).__name__}")


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
