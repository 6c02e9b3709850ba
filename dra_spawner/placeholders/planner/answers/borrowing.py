"""The placement of a server whose user is over a budget: such users borrow devices while these are not scarce.

A device is scarce for a choice if a server of it could not start now without a placeholder's device: no other device is
free on any present node. Only then such a user gets no warm placeholder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape

__all__ = ["find_borrowers_placement"]


def find_borrowers_placement(
    view: View,
    policy: Policy,
    shape: Shape,
    namespace: str,
    drivers_of_kind: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> Placement:
    """The placement of a server whose user is over a budget; see `find_placement`.

    The pod is not held back: as any pending pod, it may preempt placeholders, after those of users within budget.
    """
    if not shape.wants_devices:
        return find_placement(view, policy, shape, namespace, drivers_of_kind)
    cold = find_placement(view, policy, shape, namespace, drivers_of_kind, leaves_warm=True)
    if cold.state is AvailabilityState.FREE:
        return find_placement(view, policy, shape, namespace, drivers_of_kind)
    return replace(cold, is_behind=cold.state is not AvailabilityState.NEVER)
