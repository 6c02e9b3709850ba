"""Deletions of placeholders that people order."""

from __future__ import annotations

from collections.abc import Collection

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.view import Placeholder, View
from dra_spawner.simulator.claims import ObjectKey

__all__ = ["RefusedOrder", "UnknownPlaceholder", "decide_orders", "ordered_placeholder"]


class UnknownPlaceholder(Exception):
    """Raised for a placeholder that does not exist."""


class RefusedOrder(Exception):
    """Raised where a placeholder's state does not allow an order; the message is a sentence."""


def ordered_placeholder(view: View, key: ObjectKey, releases: bool) -> Placeholder:
    """The placeholder to evict, or whose reservation to release.

    Raises
    ------
    UnknownPlaceholder
    RefusedOrder
    """
    found = view.placeholders.get(key)
    if found is None:
        raise UnknownPlaceholder(key)
    if why := _why_not(view, found, releases=releases):
        raise RefusedOrder(why)
    return found


def _why_not(view: View, placeholder: Placeholder, *, releases: bool) -> str:
    """Why a placeholder cannot be evicted, or its reservation released, as a sentence; empty if it can."""
    reservation = placeholder.reservation
    if releases and reservation is None:
        return "This placeholder is not reserved."
    if releases and reservation is not None and _pod_of(placeholder, reservation.pod) in view.snapshot.pods:
        return "The server of this reservation is there already."
    if not placeholder.may_end(Cause.EXPIRED if releases else Cause.EVICTED):
        return f"A placeholder cannot be evicted while it is {placeholder.state}."
    return ""


def decide_orders(view: View, policy: Policy, ending: Collection[ObjectKey]) -> tuple[DeletePlaceholder, ...]:
    """Deletions that are ordered and still possible."""
    return tuple(
        delete_placeholder(found.pod, found.state, Cause.EXPIRED if order.releases else Cause.EVICTED, order.reason)
        for order in policy.orders
        if (found := view.placeholders.get(order.key)) is not None
        and found.pod.uid == order.uid
        and order.key not in ending
        and not _why_not(view, found, releases=order.releases)
    )


def _pod_of(placeholder: Placeholder, name: str) -> ObjectKey:
    return ObjectKey(placeholder.pod.namespace, name)
