"""The reservation of a warm placeholder for a server that is about to start."""

from __future__ import annotations

from datetime import UTC, timedelta

from dra_spawner.placeholders.lifecycle import PLACEHOLDER, IllegalEvent, PlaceholderSeen, after
from dra_spawner.placeholders.planner.actions import ReservedClaim, ReservePlaceholder
from dra_spawner.placeholders.planner.answers.placement import Placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind

__all__ = ["decide_reservation"]


def decide_reservation(
    view: View, placement: Placement, pod: ObjectKey, lasting: timedelta
) -> ReservePlaceholder | None:
    """The reservation for a server; None if its placement uses no warm placeholder.

    Parameters
    ----------
    placement
        The server's, in this view (`find_placement`).
    pod
        Key of the server's pod, which does not exist yet.
    lasting
        Time for which the placeholder is reserved.

    Raises
    ------
    IllegalEvent
        When the placeholder is not warm.
    """
    placeholder = placement.placeholder
    if placeholder is None:
        return None
    if after(PLACEHOLDER, placeholder.state, PlaceholderSeen.RESERVED).action is not ReservePlaceholder.kind:
        raise IllegalEvent(placeholder.state, PlaceholderSeen.RESERVED)
    until = view.now + lasting
    claims = tuple(
        ReservedClaim(each.name, key, view.version_of(Kind.RESOURCE_CLAIM, key))
        for each in placeholder.pod.claims
        if each.claim and (key := ObjectKey(placeholder.pod.namespace, each.claim))
    )
    reason = f"placeholder {placeholder.key.name} on node {placement.node} is reserved for it"
    if claims:
        reason += f", with its devices, until {until.astimezone(UTC):%H:%M:%S} UTC"
    return ReservePlaceholder(
        placeholder.key,
        placeholder.shape,
        placement.node,
        claims,
        pod,
        view.now,
        until,
        reason,
        placement.state.value,
        placeholder.ticket,
    )
