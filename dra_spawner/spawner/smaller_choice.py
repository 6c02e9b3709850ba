"""Sizes of claims: which of a form's choices is smaller than another one. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dra_spawner.common.json_types import JsonObject
from dra_spawner.dra.quantity import Quantity

#: Device class, number of devices and share of each by request.
ClaimsSize = Mapping[tuple[str, str], tuple[str, int, Mapping[str, Quantity]]]


def claims_size(specs: Mapping[str, JsonObject]) -> ClaimsSize | None:
    """The size of claims; None if they have alternatives, all devices of a node, or amounts that make no sense."""
    size = {}
    for claim, spec in specs.items():
        for request in (spec.get("devices") or {}).get("requests") or ():
            exactly = request.get("exactly")
            if not exactly or exactly.get("allocationMode") == "All":
                return None
            amounts = ((exactly.get("capacity") or {}).get("requests")) or {}
            try:
                share = {name: Quantity.parse(amount) for name, amount in amounts.items()}
            except ValueError:
                return None
            size[claim, request["name"]] = (exactly["deviceClassName"], int(exactly.get("count") or 1), share)
    return size


def is_smaller(one: ClaimsSize, other: ClaimsSize) -> bool:
    """Whether claims ask for less of the same kinds of devices in some part, and for more in none."""
    if not one or not one.keys() <= other.keys():
        return False
    is_less = len(one) < len(other)
    for request, (kind, count, share) in one.items():
        other_kind, other_count, other_share = other[request]
        # A device without a share is a whole one.
        if kind != other_kind or count > other_count or not other_share.keys() <= share.keys():
            return False
        if any(share[name].nano > amount.nano for name, amount in other_share.items()):
            return False
        is_less |= count < other_count or len(share) > len(other_share)
        is_less |= any(share[name].nano < amount.nano for name, amount in other_share.items())
    return is_less


def size_order(size: ClaimsSize) -> tuple[int, int, int]:
    """For sorting by size."""
    counts = [count for _, count, _ in size.values()]
    return len(counts), sum(counts), sum(amount.nano for _, _, share in size.values() for amount in share.values())
