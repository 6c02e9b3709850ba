"""Questions of servers that are about to start: each gets a placement and, where one is warm, a placeholder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from dra_spawner.dra.budget import SearchStopped
from dra_spawner.placeholders.controller.reconciler import Reconciler
from dra_spawner.placeholders.planner.placement import Placement, PlacementKind, find_placement
from dra_spawner.placeholders.planner.policy import Policy
from dra_spawner.placeholders.planner.reservation import decide_reservation
from dra_spawner.placeholders.planner.safeguards import hold_reason
from dra_spawner.placeholders.planner.shapes import Shape
from dra_spawner.placeholders.planner.view import View
from dra_spawner.simulator.claims import ObjectKey

__all__ = ["Frozen", "Reservations", "ReservedPlacement"]

#: Others may want the same placeholder at the same time; then the next one is tried.
_TRIES: Final = 5
#: Age up to which an earlier answer is given again.
_SAME_SECONDS: Final = 1.0
#: So many answers are remembered: users can make shapes of their own.
_MOST_ANSWERS: Final = 200


@dataclass(frozen=True, slots=True)
class ReservedPlacement:
    """What a server gets.

    Attributes
    ----------
    claims
        Warm claims that its pod is to name, by entry of ``resourceClaims``; none if it makes its own.
    until
        The pod must be there by then, if there are any.
    """

    placement: Placement
    claims: Mapping[str, str] = field(default_factory=dict)
    until: datetime | None = None


class Frozen(Exception):
    """Nothing is reserved at present. The message says why: what is known of the cluster is too old, its API fails, it
    refused the same a moment ago, or a search for devices was stopped.
    """


_Ground: TypeAlias = tuple[int, Policy, frozenset[ObjectKey], float]


def _is_same(before: _Ground, now: _Ground) -> bool:
    """Whether an answer still holds; the last is when it was given."""
    return (
        before[0] == now[0] and before[1] is now[1] and before[2] == now[2] and 0 <= now[3] - before[3] < _SAME_SECONDS
    )


@dataclass
class Reservations:
    """Answers while this process leads.

    Decided on the present view at once, and executed at once: no answer waits for a round.

    Attributes
    ----------
    reconciler
        Of this process: it has the view, the executor, the expectations and the back-off.
    lasting
        How long a reservation lasts.
    """

    reconciler: Reconciler
    lasting: timedelta = timedelta(seconds=30)
    _answers: dict[tuple[str, str], tuple[_Ground, Placement]] = field(default_factory=dict)

    async def place(self, shape: Shape, namespace: str, pod: str) -> ReservedPlacement:
        """Where a server gets its place; a warm placeholder is reserved for it from here on.

        Raises
        ------
        NotLeading
            When another replica must be asked.
        Frozen
            When nothing is reserved at present.
        KubernetesError
            When the API server refuses the reservation or cannot be reached.
        """
        for _ in range(_TRIES):
            self.reconciler.executor.may_act()
            placement, view = self._find(shape, namespace)
            action = decide_reservation(view, placement, ObjectKey(namespace, pod), self.lasting) if view else None
            if action is None:
                return ReservedPlacement(placement)
            if problem := self.reconciler.backoff.problem_of(action):
                raise Frozen(f"it was refused a moment ago: {problem}")
            if await self.reconciler.reserve(action):
                claims = {each.entry: each.key.name for each in action.claims}
                return ReservedPlacement(placement, claims, action.until if claims else None)
        return ReservedPlacement(
            Placement(PlacementKind.FRESH, "the warm placeholders were reserved for other servers a moment ago")
        )

    def _find(self, shape: Shape, namespace: str) -> tuple[Placement, View | None]:
        """A placement and the view that it was found in; without the view when it is one that was found before.

        Many ask at once in the morning. A placement that reserves nothing is the same for all of them while nothing
        changes.
        """
        reconciler = self.reconciler
        policy = reconciler.policy()
        reserved = frozenset(reconciler.expectations.reserved)
        ground = (reconciler.changes, policy, reserved, asyncio.get_running_loop().time())
        answer = self._answers.get((shape.id, namespace))
        if answer is not None and reconciler.is_running and _is_same(answer[0], ground):
            return answer[1], None
        view = reconciler.view()
        if reason := hold_reason(view, policy):
            raise Frozen(reason)
        drivers = reconciler.latest.planner_state.drivers if reconciler.latest is not None else {}
        try:
            placement = find_placement(view, policy, shape, namespace, drivers)
        except SearchStopped as stopped:
            raise Frozen(f"it is not known where a server of shape {shape.id} fits: {stopped}") from None
        if placement.kind is PlacementKind.WARM:
            self._answers.pop((shape.id, namespace), None)
        else:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            self._answers[shape.id, namespace] = ground, placement
        return placement, view
