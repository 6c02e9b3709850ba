"""Placements for servers that are about to start, with a reservation where a placeholder is warm."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.placeholders.controller.round.reconciler import Reconciler
from dra_spawner.placeholders.planner.answers.placement import Placement, find_placement, held_placement
from dra_spawner.placeholders.planner.answers.reservation import decide_reservation, find_borrowers_placement
from dra_spawner.placeholders.planner.cluster.view import View
from dra_spawner.placeholders.planner.decisions.safeguards import hold_reason
from dra_spawner.placeholders.planner.targets.policy import Policy
from dra_spawner.placeholders.planner.targets.shapes import Shape
from dra_spawner.simulator.model.claims import ObjectKey

#: Tries, as others may reserve the same placeholder at the same time.
_TRIES: Final = 5
#: Age up to which a cached answer is used.
_SAME_SECONDS: Final = 1.0
#: Limit of cached answers, as users can define shapes.
MAX_ANSWERS: Final = 200


@dataclass(frozen=True, slots=True)
class ReservedPlacement:
    """The answer for a server.

    Attributes
    ----------
    claims
        Warm claims for its pod, by entry of ``resourceClaims``; empty if the pod has its own.
    until
        Time by which the pod must be there, if there are claims.
    """

    placement: Placement
    claims: Mapping[str, str] = field(default_factory=dict)
    until: datetime | None = None


class OnHold(Exception):
    """Raised when nothing may be reserved: the view is too old, the API fails or has just refused the same, or a search
    was stopped. The message says which.
    """


_Ground: TypeAlias = tuple[int, Policy, frozenset[ObjectKey], float]


def _is_same(before: _Ground, now: _Ground) -> bool:
    """Whether a cached answer still holds; the last item is its time."""
    return (
        before[0] == now[0] and before[1] is now[1] and before[2] == now[2] and 0 <= now[3] - before[3] < _SAME_SECONDS
    )


@dataclass
class Reservations:
    """Answers requests for placements while this process leads.

    An answer is decided and executed at once, without waiting for a round.

    Attributes
    ----------
    reconciler
        Of this process; it has view, executor, expectations and back-off.
    """

    reconciler: Reconciler
    _answers: dict[tuple[str, str, bool], tuple[_Ground, Placement]] = field(default_factory=dict)

    async def place(
        self,
        shape: Shape,
        namespace: str,
        pod: str,
        tickets: Collection[str] = (),
        *,
        is_over_budget: bool = False,
    ) -> ReservedPlacement:
        """The placement of a server; a warm placeholder is reserved for it.

        Parameters
        ----------
        tickets
            Ids of the open tickets of the server's user.
        is_over_budget
            Whether its user comes after others while its devices are scarce.

        Raises
        ------
        NotLeading
            When another replica must be asked.
        OnHold
            When nothing may be reserved at present.
        KubernetesError
            When the API server refuses the reservation or cannot be reached.
        """
        for _ in range(_TRIES):
            self.reconciler.executor.may_act()
            placement, view = self._find(shape, namespace, tickets, is_over_budget)
            lasting = self.reconciler.policy().grace.reservation
            action = decide_reservation(view, placement, ObjectKey(namespace, pod), lasting) if view else None
            if action is None:
                return ReservedPlacement(placement)
            if problem := self.reconciler.backoff.problem_of(action):
                raise OnHold(f"it was refused a moment ago: {problem}")
            if await self.reconciler.reserve(action):
                claims = {each.entry: each.key.name for each in action.claims}
                return ReservedPlacement(placement, claims, action.until if claims else None)
        return ReservedPlacement(
            Placement(AvailabilityState.FREE, "the warm placeholders have just been reserved for other servers")
        )

    def _find(
        self, shape: Shape, namespace: str, tickets: Collection[str], is_over_budget: bool
    ) -> tuple[Placement, View | None]:
        """A placement and its view; without the view if the placement is cached.

        A placement that reserves nothing holds for all equal requests until something changes.
        """
        reconciler = self.reconciler
        policy = reconciler.policy()
        reserved = frozenset(reconciler.expectations.reserved)
        ground = (reconciler.changes, policy, reserved, asyncio.get_running_loop().time())
        if policy.tickets is not None and (found := self._by_ticket(policy, shape, namespace, tickets)) is not None:
            return found
        key = shape.id, namespace, is_over_budget
        answer = self._answers.get(key)
        if answer is not None and reconciler.is_running and _is_same(answer[0], ground):
            return answer[1], None
        view = reconciler.view()
        if reason := hold_reason(view, policy):
            raise OnHold(reason)
        drivers = reconciler.latest.planner_state.drivers if reconciler.latest is not None else {}
        try:
            find = find_borrowers_placement if is_over_budget else find_placement
            placement = find(view, policy, shape, namespace, drivers)
        except SearchStopped as stopped:
            raise OnHold(f"it is not known where a server of shape {shape.id} fits: {stopped}") from None
        if placement.placeholder is not None:
            self._answers.pop(key, None)
        else:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = ground, placement
        return placement, view

    def _by_ticket(
        self, policy: Policy, shape: Shape, namespace: str, tickets: Collection[str]
    ) -> tuple[Placement, View] | None:
        """The placement on a device that is held for the user, or behind others; None if tickets decide nothing."""
        queue = self.reconciler.tickets()
        if not queue.is_known and shape.wants_devices:
            raise OnHold("the queue for devices was not read yet, and any placeholder may be held for a user")
        if not queue.tickets:
            return None
        view = self.reconciler.view()
        if reason := hold_reason(view, policy):
            raise OnHold(reason)
        found = held_placement(view, policy, shape, namespace, tickets)
        return (found, view) if found is not None else None
