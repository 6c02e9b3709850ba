"""Deletions of placeholders that people order."""

from __future__ import annotations

from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import DeletePlaceholder, delete_placeholder
from dra_spawner.placeholders.planner.cluster.view import Placeholder, View
from dra_spawner.placeholders.planner.round import Round
from dra_spawner.placeholders.planner.targets.policy import DeletionOrder
from dra_spawner.simulator.model.claims import ObjectKey


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
    reservation = found.reservation
    if releases and reservation is None:
        raise RefusedOrder("This placeholder is not reserved.")
    if why := _why_not(view, found, reservation.pod if releases and reservation is not None else ""):
        raise RefusedOrder(why)
    return found


def _why_not(view: View, placeholder: Placeholder, server: str) -> str:
    """Why a placeholder cannot be evicted, or its reservation for a server released, as a sentence; empty if it can."""
    if server and not _is_reserved_for(placeholder, server):
        return "This placeholder is not reserved for this server."
    if server and ObjectKey(placeholder.pod.namespace, server) in view.snapshot.pods:
        return "The server of this reservation is there already."
    if not placeholder.may_end(Cause.EXPIRED if server else Cause.EVICTED):
        return f"A placeholder cannot be evicted while it is {placeholder.state}."
    return ""


def decide_orders(round_: Round) -> list[DeletePlaceholder]:
    """Deletions that are ordered and still possible; they wait while a kind is unknown."""
    view, ending = round_.view, round_.ending
    if view.unknown_kinds:
        return []  # a reserved placeholder's server may be there by now
    return [
        delete_placeholder(found.pod, found.state, Cause.EXPIRED if order.server else Cause.EVICTED, order.reason)
        for order in round_.policy.orders
        if (found := view.placeholders.get(order.key)) is not None
        and found.pod.uid == order.uid
        and order.key not in ending
        and not _why_not(view, found, order.server)
    ]


def is_order_done(view: View, order: DeletionOrder) -> bool:
    """Whether an order has nothing left to do: its placeholder, or the reservation, is gone."""
    pod = view.snapshot.pods.get(order.key)
    if pod is None or pod.uid != order.uid or pod.is_deleted:
        return True
    found = view.placeholders.get(order.key)
    return bool(order.server) and found is not None and not _is_reserved_for(found, order.server)


def _is_reserved_for(placeholder: Placeholder, server: str) -> bool:
    return placeholder.reservation is not None and placeholder.reservation.pod == server
