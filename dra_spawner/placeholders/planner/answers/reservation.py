"""The reservation of a warm placeholder for a server that is about to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from types import MappingProxyType

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.lifecycle import PLACEHOLDER, IllegalEvent, PlaceholderSeen, after
from dra_spawner.placeholders.planner.actions import ReservedClaim, ReservePlaceholder
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind


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


def find_borrowers_placement(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    drivers_of_kind: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Placement:
    """The placement of a server whose user is over a budget; see `find_placement`.

    Such users borrow devices while these are not scarce. A device is scarce for a choice if a server of it could not
    start now without a placeholder's device: no other device is free on any present node. Only then such a user gets no
    warm placeholder.

    The pod is not held back: as any pending pod, it may preempt placeholders, after those of users within budget.
    """
    if not shape.wants_devices:
        return find_placement(view, policy, shape, namespace, drivers_of_kind)
    cold = find_placement(view, policy, shape, namespace, drivers_of_kind, leaves_warm=True)
    if cold.state is AvailabilityState.FREE:
        return find_placement(view, policy, shape, namespace, drivers_of_kind)
    return replace(cold, is_behind=cold.state is not AvailabilityState.NEVER)
