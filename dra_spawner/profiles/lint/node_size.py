"""CPU and memory that a server requests beside its devices, and what nodes have of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity, QuantityError

__all__ = ["lacking", "requested"]

#: Traits of KubeSpawner by resource: what is requested, and what the API server requests if that is left out.
_TRAITS: Final = {"cpu": ("cpu_guarantee", "cpu_limit"), "memory": ("mem_guarantee", "mem_limit")}
#: Suffixes of JupyterHub's ``ByteSpecification``.
_BYTES: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NANO: Final = 10**9


def requested(settings: Mapping[str, Any]) -> dict[str, int]:
    """What the containers of a server request together, in nano-units; without what is no amount.

    Init containers are left out: they run before the others.
    """
    total = dict.fromkeys(_TRAITS, 0)
    for resource, (guarantee, limit) in _TRAITS.items():
        total[resource] += _trait(settings.get(guarantee)) or _trait(settings.get(limit))
    extra = settings.get("extra_containers")
    for container in extra.values() if isinstance(extra, Mapping) else extra if isinstance(extra, list | tuple) else ():
        resources = container.get("resources") if isinstance(container, Mapping) else None
        resources = resources if isinstance(resources, Mapping) else {}
        for resource in _TRAITS:
            amounts = (each.get(resource) for each in _mappings(resources.get("requests"), resources.get("limits")))
            total[resource] += next((_quantity(amount) for amount in amounts if amount), 0)
    return {resource: amount for resource, amount in total.items() if amount}


def lacking(node: JsonObject, wanted: Mapping[str, int]) -> str:
    """The first resource of which a whole node has less than is wanted; empty if it has enough, or does not say."""
    there = (node.get("status") or {}).get("allocatable") or {}
    return next((name for name, amount in wanted.items() if name in there and _quantity(there[name]) < amount), "")


def _mappings(*values: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in values if isinstance(each, Mapping))


def _trait(value: object) -> int:
    """Nano-units of a number, or of bytes such as ``1.5G``."""
    if isinstance(value, str):
        text, factor = (value[:-1], _BYTES[value[-1]]) if value[-1:] in _BYTES else (value, 1)
        try:
            return int(float(text) * factor * _NANO)
        except (ValueError, OverflowError):
            return 0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e30:
        return int(value * _NANO)
    return 0


def _quantity(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return Quantity.parse(str(value)).nano
    except QuantityError:
        return 0
