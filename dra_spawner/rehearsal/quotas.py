"""ResourceQuotas: for how many more servers they have room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dra_spawner.placeholders.planner.quota_room import needed_amounts
from dra_spawner.placeholders.planner.quotas import Quota
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import View

__all__ = ["QuotaRoom", "not_judged", "room_of"]

#: Resources that depend on more than a shape: limits of containers.
_NOT_JUDGED: Final = ("limits.",)


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """For how many more servers a quota has room.

    Attributes
    ----------
    resource
        The one that is used up first.
    """

    quota: str
    resource: str
    servers: int


def room_of(quota: Quota, shape: Shape, view: View) -> QuotaRoom | None:
    """For how many more servers of a shape a quota has room; None if it limits none of what they need."""
    needs = needed_amounts(shape, view, quota, for_server=True)
    found = [
        QuotaRoom(quota.name, resource, max(left, 0) // needs[resource])
        for resource, left in sorted(quota.left.items())
        if needs.get(resource, 0) > 0
    ]
    return min(found, key=lambda each: each.servers, default=None)


def not_judged(quota: Quota) -> tuple[str, ...]:
    """Resources of a quota that may stop servers, and that a shape does not tell."""
    return tuple(sorted(each for each in quota.left if each.startswith(_NOT_JUDGED)))
