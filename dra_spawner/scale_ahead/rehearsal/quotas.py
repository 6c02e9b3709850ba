"""Number of further servers that ResourceQuotas allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.limits import Quota, needed_amounts
from dra_spawner.placeholders.planner.targets.shapes import Shape

#: Prefix of resources that do not follow from a shape: limits of containers.
_NOT_CHECKED: Final = ("limits.",)


@dataclass(frozen=True, slots=True)
class QuotaCapacity:
    """Number of further servers of a shape that a quota allows.

    Attributes
    ----------
    resource
        The resource that is used up first.
    """

    quota: str
    resource: str
    servers: int


def quota_capacity(quota: Quota, shape: Shape, view: View) -> QuotaCapacity | None:
    """Further servers of a shape that a quota allows; None if it limits no resource that they need."""
    needs = needed_amounts(shape, view.snapshot.classes, quota, for_server=True)
    found = [
        QuotaCapacity(quota.name, resource, max(left, 0) // needs[resource])
        for resource, left in sorted(quota.left.items())
        if needs.get(resource, 0) > 0
    ]
    return min(found, key=lambda each: each.servers, default=None)


def unchecked_resources(quota: Quota) -> tuple[str, ...]:
    """Resources of a quota that are not checked, as they do not follow from a shape."""
    return tuple(sorted(each for each in quota.left if each.startswith(_NOT_CHECKED)))
