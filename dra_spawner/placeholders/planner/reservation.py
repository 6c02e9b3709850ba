"""The reservation of a warm placeholder for a server that is about to start."""

from __future__ import annotations

from datetime import UTC, timedelta

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, IllegalEvent, PlaceholderSeen, after
from dra_spawner.placeholders.planner.actions import ReservedClaim, ReservePlaceholder
from dra_spawner.placeholders.planner.placement import Placement, PlacementKind
from dra_spawner.placeholders.planner.view import View
from dra_spawner.simulator.claims import ObjectKey

__all__ = ["decide_reservation"]


def decide_reservation(
    view: View, placement: Placement, pod: ObjectKey, lasting: timedelta
) -> ReservePlaceholder | None:
    """What is reserved for a server; None if its placement is no warm placeholder.

    Parameters
    ----------
    placement
        Of the server, in this view (`find_placement`).
    pod
        The server's, which is not there yet.
    lasting
        How long the placeholder waits for it.

    Raises
    ------
    IllegalEvent
        When the placeholder is not warm.
    """
    placeholder = placement.placeholder
    if placement.kind is not PlacementKind.WARM or placeholder is None:
        return None
    if after(PLACEHOLDER, placeholder.state, PlaceholderSeen.RESERVED).action is not ReservePlaceholder.kind:
        raise IllegalEvent(placeholder.state, PlaceholderSeen.RESERVED)
    until = view.now + lasting
    claims = tuple(
        ReservedClaim(each.name, key, view.version_of(key))
        for each in placeholder.pod.claims
        if each.claim and (key := ObjectKey(placeholder.pod.namespace, each.claim))
    )
    reason = f"it gets the place of {placeholder.key.name} on node {placement.node}"
    if claims:
        reason += f", with its devices, if it is there by {until.astimezone(UTC):%H:%M:%S} UTC"
    return ReservePlaceholder(placeholder.key, placeholder.shape, placement.node, claims, pod, view.now, until, reason)
